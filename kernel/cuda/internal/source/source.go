// Package source reads the CUDA C++ files and computes the stamp of the PTX that is compiled from
// them.
package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Header is the file that all others include.
const Header = "device.cuh"

// Options are the options of the compiler for PTX.
var Options = []string{"--gpu-architecture=compute_80", "--std=c++17"}

// File is the source of a family of kernels.
type File struct {
	// Name is the name of the file without its extension.
	Name   string
	Text   string
	Header string
}

// Read returns the sources in a folder.
func Read(dir string) ([]File, error) {
	header, err := os.ReadFile(filepath.Join(dir, Header))
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.cu"))
	if err != nil {
		return nil, err
	}
	var files []File
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, File{strings.TrimSuffix(filepath.Base(path), ".cu"), string(text), string(header)})
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no .cu files", dir)
	}
	return files, nil
}

// Stamp returns the first line of the PTX of f. It contains a hash of the sources and the options.
func (f File) Stamp() string {
	h := sha256.New()
	for _, part := range append([]string{f.Text, f.Header}, Options...) {
		fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	return fmt.Sprintf("// Code generated from %s.cu by gen. DO NOT EDIT. Source SHA-256: %s\n",
		f.Name, hex.EncodeToString(h.Sum(nil)))
}
