package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPythonVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                                    "1.2.3",
		"v1.2.3+dirty":                              "1.2.3+dirty",
		"v1.2.3-rc.1":                               "1.2.3rc1",
		"v1.2.3-beta2":                              "1.2.3b2",
		"v0.0.0-20261123150000-643b496abcde":        "0.0.0.dev20261123150000+643b496abcde",
		"v1.2.4-0.20261123150000-643b496abcde":      "1.2.4.dev20261123150000+643b496abcde",
		"v1.2.4-rc.1.0.20261123150000-643b496abcde": "1.2.4.dev20261123150000+643b496abcde",
		"v0.0.0-20261123150000-643b496abcde+dirty":  "0.0.0.dev20261123150000+643b496abcde.dirty",
	} {
		got, err := pythonVersion(version)
		require.NoError(t, err)
		assert.Equal(t, want, got, version)
	}
	for _, version := range []string{"", "(devel)", "1.2.3", "v1.2", "v1.2.3-next"} {
		_, err := pythonVersion(version)
		assert.Error(t, err, version)
	}
}

func TestChoose(t *testing.T) {
	all, err := choose("")
	require.NoError(t, err)
	assert.Equal(t, targets, all)
	some, err := choose("windows/amd64,linux/amd64")
	require.NoError(t, err)
	var names []string
	for _, s := range some {
		names = append(names, s.name())
	}
	assert.Equal(t, []string{"windows-amd64", "linux-amd64", "linux-amd64-cuda"}, names)
	_, err = choose("linux/amd64,plan9/386")
	assert.EqualError(t, err, `no release is built for "plan9/386"`)
}

var (
	modified = time.Date(2026, 11, 23, 15, 0, 0, 0, time.UTC)
	files    = []entry{{"a/mquine", bytes.Repeat([]byte("x"), 1000), true}, {"a/LICENSE", []byte("text"), false}}
)

func TestTarball(t *testing.T) {
	data, err := tarball(files, modified)
	require.NoError(t, err)
	again, err := tarball(files, modified)
	require.NoError(t, err)
	assert.Equal(t, data, again)
	compressed, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	r := tar.NewReader(compressed)
	for _, want := range files {
		header, err := r.Next()
		require.NoError(t, err)
		assert.Equal(t, want.name, header.Name)
		assert.EqualValues(t, want.mode(), header.Mode)
		assert.True(t, modified.Equal(header.ModTime))
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.Equal(t, want.data, got)
	}
	_, err = r.Next()
	assert.Equal(t, io.EOF, err)
}

// A wheel lists the checksum and the size of every file except the list itself.
func TestWheel(t *testing.T) {
	r := &release{version: "v1.2.3", time: modified,
		modules: []entry{{name: "__init__.py", data: []byte("import os\n")}},
		readme:  []byte("# mquine\n"), license: []byte("license")}
	command := entry{"mquine", []byte("binary"), true}
	wheel, err := r.wheel(targets[0], command)
	require.NoError(t, err)
	assert.Equal(t, "mquine-1.2.3-py3-none-"+targets[0].wheel+".whl", wheel.name)
	again, err := r.wheel(targets[0], command)
	require.NoError(t, err)
	assert.Equal(t, wheel, again)

	archive, err := zip.NewReader(bytes.NewReader(wheel.data), int64(len(wheel.data)))
	require.NoError(t, err)
	contents := map[string][]byte{}
	for _, f := range archive.File {
		in, err := f.Open()
		require.NoError(t, err)
		contents[f.Name], err = io.ReadAll(in)
		require.NoError(t, err)
		assert.True(t, modified.Equal(f.Modified), f.Name)
		assert.Equal(t, f.Name == "mquine/bin/mquine", f.Mode()&0o111 != 0, f.Name)
	}
	const info = "mquine-1.2.3.dist-info/"
	record, err := csv.NewReader(bytes.NewReader(contents[info+"RECORD"])).ReadAll()
	require.NoError(t, err)
	require.Len(t, record, len(contents))
	for _, line := range record {
		if line[0] == info+"RECORD" {
			assert.Equal(t, []string{"", ""}, line[1:])
			continue
		}
		data, found := contents[line[0]]
		require.True(t, found, line[0])
		sum := sha256.Sum256(data)
		assert.Equal(t, "sha256="+base64.RawURLEncoding.EncodeToString(sum[:]), line[1])
		assert.Equal(t, strconv.Itoa(len(data)), line[2])
	}
	assert.Contains(t, string(contents[info+"METADATA"]), "\nVersion: 1.2.3\n")
	assert.Contains(t, string(contents[info+"METADATA"]), "\n\n# mquine\n")
	assert.Contains(t, string(contents[info+"WHEEL"]), "\nTag: py3-none-musllinux_1_1_x86_64\n")
	assert.Contains(t, contents, "mquine/__init__.py")
}
