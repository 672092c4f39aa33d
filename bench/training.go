package bench

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train"
)

// products measures the matrix products of a training step, including their packing: the scores of
// a batch of queries against shared candidates, and the two products for the gradients.
func products(s *suite) []Benchmark {
	var list []Benchmark
	for _, backend := range s.backends {
		one := newLimit(ceiling.Terms(backend, kernel.Dot))
		limits := func(terms float64) []share { return []share{{"pct-peak", terms, one}} }
		list = append(list, productsOf(s, "Product", backend, linalg.New(backend).NewProduct, limits)...)
	}
	return list
}

// bfloat16Products measures products in bfloat16. pct-peak is a share of the ceiling of bfloat16, and
// pct-fma a share of the float32 multiply-add ceiling.
func bfloat16Products(s *suite) []Benchmark {
	var list []Benchmark
	for _, backend := range s.backends {
		if !backend.Features.Has(kernel.FeatureAVX512BF16) {
			continue
		}
		own, fma := newLimit(ceiling.BFloat16(backend)), newLimit(ceiling.Terms(backend, kernel.Dot))
		limits := func(terms float64) []share {
			return []share{{"pct-peak", 2 * terms, own}, {"pct-fma", terms, fma}}
		}
		newProduct := linalg.New(backend).NewBFloat16Product
		list = append(list, productsOf(s, "BFloat16Product", backend, newProduct, limits)...)
	}
	return list
}

// tileProducts measures products in bfloat16 with AMX, and splitProducts measures split products.
// pct-peak counts the bfloat16 products of a term, one or three, and is a share of the matrix unit's
// ceiling. pct-fma counts a term once and is a share of the float32 multiply-add ceiling.
func tileProducts(s *suite) []Benchmark {
	return matrixUnitProducts(s, "TileProduct", 1, kernel.FeatureAMXBF16|kernel.FeatureAVX512BF16,
		(*linalg.Backend).NewTileProduct)
}

func splitProducts(s *suite) []Benchmark {
	return matrixUnitProducts(s, "SplitProduct", 3, kernel.FeatureAMXBF16, (*linalg.Backend).NewSplitProduct)
}

func matrixUnitProducts(
	s *suite, family string, parts float64, needs kernel.Features,
	newProduct func(*linalg.Backend, int) *linalg.Product,
) []Benchmark {
	var list []Benchmark
	for _, backend := range s.backends {
		if !backend.Features.Has(needs) {
			continue
		}
		tiles, fma := newLimit(ceiling.BFloat16Tiles(backend)), newLimit(ceiling.Terms(backend, kernel.Dot))
		limits := func(terms float64) []share {
			return []share{{"pct-peak", parts * 2 * terms, tiles}, {"pct-fma", terms, fma}}
		}
		kernels := linalg.New(backend)
		list = append(list, productsOf(s, family, backend, func(threads int) *linalg.Product {
			return newProduct(kernels, threads)
		}, limits)...)
	}
	return list
}

// productsOf lists the benchmarks of a family: scores, [queries][n], and the gradients with respect
// to queries and candidates.
func productsOf(
	s *suite, family string, backend *kernel.Backend, newProduct func(threads int) *linalg.Product,
	limits func(terms float64) []share,
) []Benchmark {
	const queries, features = 2048, 1482
	var list []Benchmark
	for _, candidates := range []int{1024, 14541} {
		if backend.Tier == kernel.Generic && candidates > 2000 {
			continue // it would take minutes
		}
		for _, product := range []string{"scores", "queries", "candidates"} {
			list = append(list, Benchmark{
				Name:  name(family, "tier", backend.Tier, "of", product, "n", candidates, "k", features),
				Quick: product == "scores" && candidates == 1024 && s.best(backend),
				run: func(ctx context.Context, b *testing.B) error {
					p := newProduct(1)
					psi, phi := randomMatrix(queries, features), randomMatrix(candidates, features)
					w := randomMatrix(queries, candidates)
					out := map[string]linalg.Matrix{"scores": w, "queries": psi, "candidates": phi}[product]
					out = linalg.NewMatrix(out.Rows, out.Cols)
					multiply := map[string]func() error{
						"scores":     func() error { return p.NT(ctx, out, psi, phi, false) },
						"queries":    func() error { return p.NN(ctx, out, w, phi, false) },
						"candidates": func() error { return p.TN(ctx, out, w, psi, false) },
					}[product]
					terms := float64(queries) * float64(candidates) * features
					return operation{flops: 2 * terms, limits: limits(terms)}.measureError(b, multiply)
				},
			})
		}
	}
	return list
}

// distances measures the scores and the gradients of a distance in a training step: for a block of
// 512 queries, including packing, and for pairs of these queries with 64 feature rows each. A
// gradient of a block has two terms for each term of a score, one for the query and one for the
// feature; a gradient of a pair has one.
func distances(s *suite) []Benchmark {
	var list []Benchmark
	for _, backend := range s.backends {
		for _, d := range linalg.DistanceKinds() {
			for _, shape := range [][2]int{{1024, 200}, {4096, 200}, {1024, 1000}, {4096, 1000}} {
				n, k := shape[0], shape[1]
				if backend.Tier == kernel.Generic && n*k > 1024*200 {
					continue // it would take minutes
				}
				for _, of := range []string{"scores", "gradients", "pair-scores", "pair-gradients"} {
					list = append(list, Benchmark{
						Name:  name("Distance", "tier", backend.Tier, "distance", d, "of", of, "n", n, "k", k),
						Quick: n == 1024 && k == 1000 && d == linalg.DistanceL1 && s.best(backend),
						run: func(ctx context.Context, b *testing.B) error {
							return distance(ctx, b, backend, d, of, n, k)
						},
					})
				}
			}
		}
	}
	return list
}

// distance measures the scores or the gradients, of a block or of pairs.
func distance(
	ctx context.Context, b *testing.B, backend *kernel.Backend, kind linalg.DistanceKind, of string, n, k int,
) error {
	const queries, pairs = 512, 64
	kernels := linalg.New(backend)
	d := kernels.NewDistance(kind, 1)
	psi, phi, g := randomMatrix(queries, k), randomMatrix(n, k), randomMatrix(queries, n)
	s, dPsi, dPhi := linalg.NewMatrix(queries, n), linalg.NewMatrix(queries, k), linalg.NewMatrix(n, k)
	if err := d.Scores(ctx, s, psi, phi); err != nil {
		return err
	}
	rows, rng := make([]int32, queries*pairs), rand.New(rand.NewPCG(1, 1))
	for i := range rows {
		rows[i] = rng.Int32N(int32(n))
	}
	eachQuery := func(compute func(i int, rows []int32)) func() error {
		return func() error {
			for i := range queries {
				compute(i, rows[i*pairs:(i+1)*pairs])
			}
			return nil
		}
	}
	ofScores, ofGradients := ceiling.DistanceTerms(kernels, kind)
	ofBlock, ofPairs := queries*float64(n)*float64(k), float64(queries*pairs*k)
	x := map[string]struct {
		compute func() error
		terms   float64
		limit   ceiling.Ceiling
	}{
		"scores":    {func() error { return d.Scores(ctx, s, psi, phi) }, ofBlock, ofScores},
		"gradients": {func() error { return d.Gradients(ctx, dPsi, dPhi, g, s, psi, phi) }, 2 * ofBlock, ofGradients},
		"pair-scores": {eachQuery(func(i int, rows []int32) {
			kernels.DistanceScores(kind, s.Row(i)[:pairs], psi.Row(i), phi, rows)
		}), ofPairs, ofScores},
		"pair-gradients": {eachQuery(func(i int, rows []int32) {
			kernels.AddDistanceGradient(kind, dPsi.Row(i), g.Row(i)[:pairs], psi.Row(i), phi, rows)
		}), ofPairs, ofGradients},
	}[of]
	return operation{
		others: map[string]float64{"terms/s": x.terms},
		limits: []share{{"pct-peak", x.terms, newLimit(x.limit)}},
	}.measureError(b, x.compute)
}

// regions measures the scores and the gradients of regions in a training step: for a block of 64
// queries and 512 features, including the preparation of the queries, and the scores of these queries
// with 64 feature rows each. k is the number of entries of φ. Padding counts as terms, because the
// kernels compute it. Gradients have two terms for each term of a score, one for ψ and one for φ.
func regions(s *suite) []Benchmark {
	var list []Benchmark
	for _, backend := range s.backends {
		for _, kind := range linalg.RegionKinds() {
			for _, k := range []int{200, 400, 1000, 2000} {
				for _, of := range []string{"scores", "gradients", "pair-scores"} {
					list = append(list, Benchmark{
						Name:  name("Region", "tier", backend.Tier, "region", kind, "of", of, "k", k),
						Quick: k == 400 && of != "pair-scores" && s.best(backend),
						run: func(ctx context.Context, b *testing.B) error {
							return region(ctx, b, backend, kind, of, k)
						},
					})
				}
			}
		}
	}
	return list
}

// region measures the scores or the gradients of a block, or the scores of pairs.
func region(
	ctx context.Context, b *testing.B, backend *kernel.Backend, kind linalg.RegionKind, of string, k int,
) error {
	const queries, features, pairs = 64, 512, 64
	shape := linalg.Region{Kind: kind, Coordinates: k}
	if kind == linalg.RegionBoxes {
		shape.Coordinates = k / 2 // in each of two parts
	}
	k = shape.Width()
	kernels := linalg.New(backend)
	r := kernels.NewRegions(shape, 1)
	psi, phi, g := randomMatrix(queries, 3*k), randomMatrix(features, k), randomMatrix(queries, features)
	s := linalg.NewMatrix(queries, features)
	dPsi, dPhi := linalg.NewMatrix(queries, 3*k), linalg.NewMatrix(features, k)
	rows, rng := make([]int32, queries*pairs), rand.New(rand.NewPCG(1, 1))
	for i := range rows {
		rows[i] = rng.Int32N(features)
	}
	ofScores, ofGradients := ceiling.RegionTerms(kernels, kind)
	o, compute := operation{}, func() error { return r.Scores(ctx, s, psi, phi) }
	terms, limit := float64(queries*features*k), ofScores
	switch of {
	case "gradients":
		// Gradients replaces the scores of the parts, so a call without new scores computes with other
		// weights. Its time hardly depends on them.
		if err := r.Scores(ctx, s, psi, phi); err != nil {
			return err
		}
		terms, limit = 2*terms, ofGradients
		compute = func() error { return r.Gradients(ctx, dPsi, dPhi, g, psi, phi) }
	case "pair-scores":
		terms = float64(queries * pairs * k)
		compute = func() error {
			for i := range queries {
				kernels.RegionScores(shape, s.Row(i)[:pairs], psi.Row(i), phi, rows[i*pairs:(i+1)*pairs])
			}
			return nil
		}
	}
	o.others = map[string]float64{"terms/s": terms}
	if backend.Tier != kernel.Generic { // its peak loop allocates memory in every call, too slow for a ceiling
		o.limits = []share{{"pct-peak", terms, newLimit(limit)}}
	}
	return o.measureError(b, compute)
}

// smallProducts measures products of d × d float32 matrices in L1, the features of entities, and
// the gradients of those features. GFLOP/s does not count padding and, for features, counts half of
// each product, because the result is symmetric.
func smallProducts(s *suite) []Benchmark {
	const entities = 64
	var list []Benchmark
	for _, backend := range s.backends {
		for _, d := range []int{18, 20, 35, 38} {
			for _, part := range []string{"product", "features", "gradient"} {
				list = append(list, Benchmark{
					Name:  name("Small", "tier", backend.Tier, "of", part, "d", d),
					Quick: d == 38 && s.best(backend),
					run: func(_ context.Context, b *testing.B) error {
						x, y, c := randomSmall(d), randomSmall(d), linalg.NewSmall(d, d)
						p := d * (d + 1) / 2
						phi, gradient := randomMatrix(entities, 2*p), linalg.NewMatrix(entities, p)
						worker, err := entityWorker(backend, d, entities)
						if err != nil {
							return err
						}
						cube, i := 2*float64(d*d*d), 0
						o := map[string]operation{
							"product": {flops: cube, call: func() {
								linalg.New(backend).MatMul32(c, x, y, linalg.Matrix{})
							}},
							"features": {flops: cube / 2, call: func() {
								worker.Features(phi.Row(i), int32(i))
								i = (i + 1) % entities
							}},
							"gradient": {flops: cube, call: func() {
								worker.FeatureGradient(gradient.Row(i), phi.Row(i), phi.Row(i), int32(i))
								i = (i + 1) % entities
							}},
						}[part]
						o.limits = []share{{"pct-peak", o.flops / 2, newLimit(ceiling.Terms(backend, kernel.Dot))}}
						o.measure(b)
						return nil
					},
				})
			}
		}
	}
	return list
}

// entityWorker returns a training worker of MQuinE with random parameters.
func entityWorker(backend *kernel.Backend, d, entities int) (model.TrainingWorker, error) {
	c := model.Config{Model: "mquine", Dim: d, Entities: entities, Relations: 1}
	m, err := train.Random(context.Background(), c, 1)
	if err != nil {
		return nil, err
	}
	return m.(model.Trainable).NewTrainingWorker(linalg.New(backend), model.NoPenalty), nil
}

// rowOperations measures a training step's operations on rows of 1,024 values in L2. In the names,
// coast means AdamCatchUp, as in stored results.
func rowOperations(s *suite) []Benchmark {
	const rows, cols = 16, 1024
	var list []Benchmark
	for _, backend := range s.backends {
		for _, part := range []string{
			"softmax", "logistic", "axpy", "multiply", "complex", "dots", "addrows", "adam", "coast", "adagrad",
		} {
			list = append(list, Benchmark{
				Name:  name("Rows", "tier", backend.Tier, "of", part),
				Quick: (part == "softmax" || part == "adam") && s.best(backend),
				run: func(_ context.Context, b *testing.B) error {
					x, y := randomMatrix(rows, cols), randomMatrix(rows, cols)
					m, v := linalg.NewMatrix(rows, cols), linalg.NewMatrix(rows, cols)
					kernels, adam := linalg.New(backend), linalg.NewAdamStep(1e-3, 0.9, 0.999, 1e-8, 1, 0)
					adagrad := linalg.AdagradStep{Rate: 1e-3, Epsilon: 1e-10}
					numbers, all := make([]float32, rows), make([]int32, rows)
					for k := range all {
						all[k] = int32(k)
					}
					work := map[string]func(i int){
						"softmax": func(i int) { copy(m.Row(i), x.Row(i)); kernels.Softmax(m.Row(i), 1, 1) },
						"logistic": func(i int) {
							copy(m.Row(i), x.Row(i))
							kernels.Logistic(m.Row(i), y.Row(i), 0, 0)
						},
						"axpy":     func(i int) { kernels.Axpy(m.Row(i), 1e-9, y.Row(i)) },
						"multiply": func(i int) { kernels.Multiply(m.Row(i), x.Row(i), y.Row(i)) },
						"complex":  func(i int) { kernels.MultiplyComplex(m.Row(i), x.Row(i), y.Row(i), true) },
						"dots":     func(i int) { kernels.Dots(numbers, x.Row(i), y, all) },
						"addrows":  func(i int) { kernels.AddRows(m.Row(i), numbers, y, all) },
						"adam":     func(i int) { kernels.Adam(x.Row(i), m.Row(i), v.Row(i), y.Row(i), adam, 0) },
						"coast":    func(i int) { kernels.AdamCatchUp(x.Row(i), m.Row(i), v.Row(i), 1e-9, 1e-8, 0) },
						"adagrad":  func(i int) { kernels.Adagrad(x.Row(i), v.Row(i), y.Row(i), adagrad) },
					}[part]
					i, entries := 0, float64(cols)
					if part == "dots" || part == "addrows" {
						entries *= rows
					}
					operation{
						call:   func() { work(i); i = (i + 1) % rows },
						others: map[string]float64{"entries/s": entries},
					}.measure(b)
					return nil
				},
			})
		}
	}
	return list
}

func randomSmall(d int) linalg.Matrix {
	m := linalg.NewSmall(d, d)
	copy(m.Data, randoms(len(m.Data)))
	return m
}

func randomMatrix(rows, cols int) linalg.Matrix {
	m := linalg.NewMatrix(rows, cols)
	copy(m.Data, randoms(len(m.Data)))
	return m
}
