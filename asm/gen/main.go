// Command gen writes the assembly of package asm: run `go generate ./asm`.
//
// Each file of this module is one family of kernels and generates one .s file with its Go
// stubs. A kernel's name ends in the instruction set that it uses and that a caller must have
// found through cpuid: AVX2 (with FMA), AVX512 (F, BW, DQ, VL), AVX512VNNI, AMX (AVX512 and tiles of
// bytes) or AMXBF16 (tiles of bfloat16).
package main

import (
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("gen: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: gen DIR (the folder of package asm)")
	}
	dir := os.Args[1]
	families := []struct {
		name string
		emit func(*build.Context)
	}{
		{"panel", panels},
		{"tiles", tiles},
		{"split", splits},
		{"pairs", pairs},
		{"matmul", matMuls},
		{"frobenius", frobeniusColumns},
		{"peak", peaks},
		{"gemm", gemms},
		{"distance", distances},
		{"distance_rows", distanceRows},
		{"small", strips32},
		{"triangle", triangles},
		{"rows", rowKernels},
		{"weights", weights},
		{"bandwidth", sums},
	}
	for _, f := range families {
		ctx := build.NewContext()
		ctx.ConstraintExpr("amd64,!noasm")
		f.emit(ctx)
		file, err := ctx.Result()
		if err != nil {
			log.Fatalf("%s: %v", f.name, err)
		}
		if err := pass.Compile.Execute(file); err != nil {
			log.Fatalf("%s: %v", f.name, err)
		}
		cfg := printer.Config{Name: "asm/gen", Pkg: "asm"}
		write(filepath.Join(dir, f.name+"_amd64.s"), printer.NewGoAsm(cfg), file)
		write(filepath.Join(dir, f.name+"_amd64.go"), printer.NewStubs(cfg), file)
	}
}

// function begins a leaf function that the Go stack need not grow for.
func function(c *build.Context, name, signature string) {
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr(signature)
}

// doc sets the doc comment of the stub.
func doc(c *build.Context, text string) { c.Doc(strings.Split(text, "\n")...) }

func write(path string, p printer.Printer, file *ir.File) {
	text, err := p.Print(file)
	if err != nil {
		log.Fatalf("%s: %v", path, err)
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		log.Fatal(err)
	}
}
