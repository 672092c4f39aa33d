// Package source knows the CUDA C++ files and how they become PTX.
package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Header is the file that the others include.
const Header = "device.cuh"

// Options are the compiler's for PTX.
var Options = []string{"--gpu-architecture=compute_80", "--std=c++17"}

// File is a family of kernels.
type File struct {
	// Name has no extension.
	Name   string
	Text   string
	Header string
}

// Read returns the families in a folder.
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

// Stamp is the first line of the file's PTX: a hash of all that it was made from.
func (f File) Stamp() string {
	h := sha256.New()
	for _, part := range append([]string{f.Text, f.Header}, Options...) {
		fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	return "// Code generated from " + f.Name + ".cu by gen. DO NOT EDIT. Source SHA-256: " + hex.EncodeToString(h.Sum(nil)) + "\n"
}
