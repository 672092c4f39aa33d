package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"time"
)

// entry is a file in an archive.
type entry struct {
	name       string
	data       []byte
	executable bool
}

func (e entry) mode() fs.FileMode {
	if e.executable {
		return 0o755
	}
	return 0o644
}

// tarball returns a .tar.gz file whose bytes depend only on the arguments.
func tarball(entries []entry, modified time.Time) ([]byte, error) {
	var b bytes.Buffer
	compressor, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressor)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Size: int64(len(e.data)), Mode: int64(e.mode()), ModTime: modified,
			Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), compressor.Close())
	return b.Bytes(), err
}

// zipped returns a .zip file whose bytes depend only on the arguments.
func zipped(entries []entry, modified time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: modified}
		header.SetMode(e.mode())
		file, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
