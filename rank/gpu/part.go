package gpu

import (
	"context"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// part is a device and its part of a slice of the candidates: the positions first ≤ p < first+n.
type part struct {
	ranking  *ranking
	device   *cuda.Device
	stream   *stream
	screens  *cuda.Screens
	stages   *cuda.Stages
	towers   *cuda.Towers // nil if the processor computes φ and ψ
	room     int          // for candidates
	first, n int
	k        int  // length of a row of features
	half     bool // φ is quantised for the tensor cores
	// useSingle is set when the tensor cores leave too many pairs undecided.
	useSingle atomic.Bool

	staging *cuda.Pinned
	copied  [2]*cuda.Event // events after the last copy from each half of staging
	// These fields are device memory for the candidates, for the factors of the operands, and for
	// the bounds of each cuda.CandidateBlock of candidates.
	phi, halves, scales, sizes, sizes3, norms *cuda.Memory
	entity, representative                    *cuda.Memory
	centre, factor, inverse                   *cuda.Memory
	blocksHalf, blocksSingle                  *cuda.Memory
	tensors                                   [4]*cuda.Memory // the model's parameters, with towers
	memory                                    []*cuda.Memory
}

// stagingBytes is the size of the staging memory, unless long rows or many candidates need more.
// Reserving page-locked memory takes about 0.7 ms per MiB.
const stagingBytes = 2 << 20

// partPin returns the size of the staging memory of a part with room for the given number of
// candidates, whose rows have length k.
func partPin(k, room int) int64 { return max(stagingBytes, 24*int64(room), 3*4*int64(k)+48) }

// reserve reserves the part's memory. Unless the part shares the kernels and the model's parameters
// with a part of another buffer, reserve loads them too.
func (p *part) reserve() (err error) {
	if p.stream, err = newStream(p.device); err != nil {
		return err
	}
	for i := range p.copied {
		if p.copied[i], err = p.device.NewEvent(); err != nil {
			return err
		}
	}
	room, k := int64(p.room), int64(pad(engine.WidestTower(p.ranking.job.Model)))
	if p.staging, err = p.device.Pin(partPin(int(k), p.room)); err != nil {
		return err
	}
	blocks := int64(unsafe.Sizeof(cuda.CandidateBlock{})) * (room / cuda.BlockCandidates)
	for _, m := range []piece{
		{&p.phi, 4 * room * k}, {&p.halves, 2 * room * k}, {&p.scales, 4 * room}, {&p.sizes3, 24 * room},
		{&p.norms, 8 * room}, {&p.sizes, 8 * room}, {&p.entity, 4 * room}, {&p.representative, 4 * room},
		{&p.centre, 4 * k}, {&p.factor, 4 * k}, {&p.inverse, 4 * k}, {&p.blocksHalf, blocks}, {&p.blocksSingle, blocks},
	} {
		if *m.to, err = p.device.Alloc(m.bytes); err != nil {
			return err
		}
		p.memory = append(p.memory, *m.to)
	}
	if p.screens != nil {
		return nil
	}
	if p.screens, err = cuda.NewScreens(p.device); err != nil {
		return err
	}
	if p.stages, err = cuda.NewStages(p.device); err != nil {
		return err
	}
	if p.ranking.slices.constructs {
		return p.sendModel(p.ranking.job.Model)
	}
	return nil
}

// sendModel uploads the model's parameters and loads the kernels that compute φ and ψ from them.
func (p *part) sendModel(m model.Model) (err error) {
	if p.towers, err = cuda.NewTowers(p.device, m.Config().Dim); err != nil {
		return err
	}
	ctx := context.Background() // Engine.Start has none, and the upload is short
	for i, t := range m.Tensors() {
		if p.tensors[i], err = p.device.Alloc(4 * int64(len(t))); err != nil {
			return err
		}
		p.memory = append(p.memory, p.tensors[i])
		write := func(values []float32, from int) error {
			return engine.InChunks(ctx, p.ranking.job.Threads, len(values), 1<<14, func(_, first, last int) {
				copy(values[first:last], t[from+first:])
			})
		}
		if err = p.feed(ctx, p.tensors[i], len(t), 4, write); err != nil {
			return err
		}
	}
	return nil
}

// close waits for the device and frees the memory.
func (p *part) close() {
	p.stream.close()
	for _, m := range p.memory {
		_ = m.Free()
	}
	_ = p.staging.Free()
	for _, e := range p.copied {
		if e != nil {
			_ = e.Close()
		}
	}
}

// sync waits for the part's stream. The wait is short, because the staging memory bounds the queued
// work.
func (p *part) sync() error { return p.stream.wait(context.Background()) }

// feed uploads n rows of rowBytes bytes each, which fill writes to one half of the staging memory
// while the other half is being copied.
func (p *part) feed(
	ctx context.Context, dst *cuda.Memory, n int, rowBytes int64, fill func(values []float32, from int) error,
) error {
	half := max(stagingBytes/2, rowBytes)
	each := int(half / rowBytes)
	for at, turn := 0, 0; at < n; at, turn = at+each, 1-turn {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.copied[turn].Wait(context.Background()); err != nil {
			return err
		}
		bytes := int64(min(each, n-at)) * rowBytes
		if err := fill(cuda.View[float32](p.staging, int64(turn)*half, int(bytes/4)), at); err != nil {
			return err
		}
		p.stream.copyTo(dst, int64(at)*rowBytes, p.staging, int64(turn)*half, bytes)
		p.stream.record(p.copied[turn])
		p.stream.start()
	}
	return p.sync()
}

// upload uploads part i of n of the candidates, in the order of their positions.
func (p *part) upload(ctx context.Context, f *engine.Features, b operands, i, n int) error {
	p.first, p.n = f.N*i/n, f.N*(i+1)/n-f.N*i/n
	p.k = pad(f.Tower.Phi)
	p.half = f.Tower.Compare == kernel.Dot
	p.useSingle.Store(false)
	at := send(p.stream, p.entity, p.staging, 0, p.n, func(v []int32) {
		for i := range v {
			v[i] = f.Entity(p.first + i)
		}
	})
	send(p.stream, p.representative, p.staging, at, p.n, func(v []int32) {
		for i := range v {
			v[i] = p.ranking.job.Rep(f.Entity(p.first + i))
		}
	})
	if err := p.sync(); err != nil {
		return err
	}
	p.clearPadding(p.phi, int64(4*p.k))
	fill := p.sendFeatures
	if p.towers != nil {
		fill = p.construct
	}
	norms, sizes, err := fill(ctx, f)
	if err != nil {
		return err
	}
	blocks := make([]cuda.CandidateBlock, p.room/cuda.BlockCandidates)
	for i := range norms {
		b := &blocks[i/cuda.BlockCandidates]
		n := kernel.RoundUp32(norms[i])
		b.B[3], b.Norm, b.Size = max(b.B[3], n), max(b.Norm, n), max(b.Size, kernel.RoundUp32(sizes[i]))
	}
	send(p.stream, p.blocksSingle, p.staging, 0, len(blocks), func(v []cuda.CandidateBlock) { copy(v, blocks) })
	if err := p.sync(); err != nil || !p.half {
		return err
	}
	return p.quantise(f, blocks, b)
}

// clearPadding zeroes the rest of the last tile, after the candidates' rows.
func (p *part) clearPadding(m *cuda.Memory, rowBytes int64) {
	at := int64(p.n) * rowBytes
	p.stream.zero(m, at, min(m.Bytes()-at, cuda.CandidateTile*rowBytes))
}

// sendFeatures uploads φ, ‖φ‖ and the sizes, and returns ‖φ‖ and the sizes by position.
func (p *part) sendFeatures(ctx context.Context, f *engine.Features) (norms, sizes []float64, err error) {
	order := f.RowAt[p.first : p.first+p.n]
	err = p.feed(ctx, p.phi, p.n, int64(4*p.k), func(values []float32, from int) error {
		return engine.InChunks(ctx, p.ranking.job.Threads, len(values)/p.k, 64, func(_, first, last int) {
			for i := first; i < last; i++ {
				permute(values[i*p.k:(i+1)*p.k], f.Row(order[from+i]), f.TermOrder)
			}
		})
	})
	if err != nil {
		return nil, nil, err
	}
	norms, sizes = make([]float64, p.n), make([]float64, p.n)
	for i, row := range order {
		norms[i], sizes[i] = f.Norms[row], f.Sizes[row]
	}
	at := send(p.stream, p.norms, p.staging, 0, p.n, func(v []float64) { copy(v, norms) })
	send(p.stream, p.sizes, p.staging, at, p.n, func(v []float64) { copy(v, sizes) })
	return norms, sizes, p.sync()
}

// construct computes φ on the device, and returns ‖φ‖ and the sizes by position.
func (p *part) construct(context.Context, *engine.Features) (norms, sizes []float64, err error) {
	bytes := int64(8 * p.n)
	launch(p.stream, p.towers.Features, cuda.Construct{
		Entities: p.tensors[0].At(0), Entity: p.entity.At(0), Out: p.phi.At(0), Norms: p.norms.At(0),
		Sizes: p.sizes.At(0),
		N:     int32(p.n), Dim: int32(p.ranking.job.Model.Config().Dim), K: int32(p.k),
	})
	p.stream.copyFrom(p.staging, 0, p.norms, 0, bytes)
	p.stream.copyFrom(p.staging, bytes, p.sizes, 0, bytes)
	if err := p.sync(); err != nil {
		return nil, nil, err
	}
	norms = slices.Clone(cuda.View[float64](p.staging, 0, p.n))
	return norms, slices.Clone(cuda.View[float64](p.staging, bytes, p.n)), nil
}

// permute writes the entries of row in the order of terms, followed by zeros.
func permute(dst, row []float32, terms []int32) {
	for at, t := range terms {
		dst[at] = row[t]
	}
	clear(dst[len(terms):])
}

// quantise centres and balances φ. From the result, it computes the operands of the tensor cores
// and their bounds for each block.
func (p *part) quantise(f *engine.Features, blocks []cuda.CandidateBlock, b operands) error {
	at := int64(0)
	for _, v := range []struct {
		to   *cuda.Memory
		from []float32
	}{{p.centre, b.mean}, {p.factor, b.factor}, {p.inverse, b.inverse}} {
		at = send(p.stream, v.to, p.staging, at, p.k, func(to []float32) { copy(to, v.from) })
	}
	p.clearPadding(p.halves, int64(2*p.k))
	p.stream.zero(p.scales, 0, p.scales.Bytes())
	launch(p.stream, p.stages.Quantise, cuda.Quantise{
		Rows: p.phi.At(0), Centre: p.centre.At(0), Factor: p.factor.At(0), Out: p.halves.At(0), Scales: p.scales.At(0),
		Sizes: p.sizes3.At(0), N: int32(p.n), Width: int32(f.Tower.Phi), Stride: int32(p.k), K: int32(p.k),
	})
	if err := p.sync(); err != nil { // now the staging memory of the factors is free
		return err
	}
	p.stream.copyFrom(p.staging, 0, p.sizes3, 0, int64(24*p.n))
	if err := p.sync(); err != nil {
		return err
	}
	for i, v := range cuda.View[[3]float64](p.staging, 0, p.n) {
		b := &blocks[i/cuda.BlockCandidates]
		for j := range v {
			b.B[j] = max(b.B[j], kernel.RoundUp32(v[j]))
		}
		b.Norm = b.B[0]
	}
	send(p.stream, p.blocksHalf, p.staging, 0, len(blocks), func(v []cuda.CandidateBlock) { copy(v, blocks) })
	return p.sync()
}
