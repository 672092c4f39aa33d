package catalogue

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

// manifest is the part of the real data's MANIFEST.json that is also in the catalogue.
type manifest struct {
	Datasets map[string]struct {
		Title   string         `json:"title"`
		Licence string         `json:"licence"`
		Counts  map[string]int `json:"counts"`
		Files   map[string]struct {
			Lines  int    `json:"lines"`
			SHA256 string `json:"sha256"`
		} `json:"files"`
		Absent map[string]struct {
			Triples int    `json:"triples"`
			Git     string `json:"git_blob_sha1"`
			MD5     string `json:"md5"`
		} `json:"absent"`
	} `json:"datasets"`
}

func realData(tb testing.TB) string {
	dir := os.Getenv("MQUINE_DATA")
	if dir == "" {
		tb.Skip("MQUINE_DATA does not name the folder of the real data sets")
	}
	if _, err := os.Stat(filepath.Join(dir, "MANIFEST.json")); err != nil {
		tb.Skipf("MQUINE_DATA has no manifest: %v", err)
	}
	return dir
}

func TestCatalogueAgreesWithManifest(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(realData(t), "MANIFEST.json"))
	require.NoError(t, err)
	var m manifest
	require.NoError(t, json.Unmarshal(data, &m))
	require.Len(t, All(), len(m.Datasets))
	for name, want := range m.Datasets {
		d, ok := Find(name)
		require.True(t, ok, name)
		require.Equal(t, want.Title, d.Title, name)
		require.Equal(t, want.Licence, d.Licence, name)
		require.Equal(t, want.Counts["entities"], d.Entities, name)
		require.Equal(t, want.Counts["relations"], d.Relations, name)
		triples := make(map[string]int)
		for _, f := range d.Files {
			triples[f.Name] = f.Lines
			var sums []Sum
			if have, ok := want.Files[f.Name+".txt.gz"]; ok {
				require.Equal(t, have.Lines, f.Lines, "%s %s", name, f.Name)
				sums = append(sums, Sum("sha256:"+have.SHA256))
			} else {
				absent := want.Absent[f.Name]
				require.Equal(t, absent.Triples, f.Lines, "%s %s", name, f.Name)
				if absent.MD5 != "" {
					sums = append(sums, Sum("md5:"+absent.MD5))
				}
				sums = append(sums, Sum("git:"+absent.Git))
			}
			require.Equal(t, sums, f.Sums, "%s %s", name, f.Name)
		}
		delete(want.Counts, "entities")
		delete(want.Counts, "relations")
		require.Equal(t, want.Counts, triples, name)
	}
}

// Every file of the real data that the catalogue lists has the checksums and the number of lines in
// the catalogue, and less than half the size limit of a download.
func TestCatalogueAgreesWithData(t *testing.T) {
	dir, verified := realData(t), 0
	for _, d := range All() {
		for _, f := range d.Files {
			path, err := f.Find(filepath.Join(dir, d.Name))
			require.NoError(t, err)
			if path != "" {
				require.NoError(t, f.Verify(t.Context(), path))
				require.NoError(t, f.VerifyLines(t.Context(), path))
				size := int64(0)
				_, err := f.readStored(t.Context(), path, path, writerFunc(func(p []byte) (int, error) {
					size += int64(len(p))
					return len(p), nil
				}))
				require.NoError(t, err)
				require.Less(t, 2*size, f.maxBytes(), "a download has room to spare")
				verified++
			}
		}
	}
	require.Equal(t, 44, verified, "all of the 46 files except two training splits")
}

func TestCatalogueIsWellFormed(t *testing.T) {
	for _, d := range All() {
		require.Regexp(t, names, d.Name)
		require.NotEmpty(t, d.Title)
		require.NotEmpty(t, d.Source, d.Name)
		require.NotEmpty(t, d.Licence, d.Name)
		require.NotEmpty(t, d.Origins, d.Name)
		for s := range kg.NumSplits {
			require.Equal(t, s.String(), d.Files[s].Name, d.Name)
			require.True(t, d.Files[s].required())
			require.Positive(t, d.Triples(s))
		}
		for _, f := range d.Files[kg.NumSplits:] {
			require.False(t, f.required(), "%s %s", d.Name, f.Name)
		}
		for _, f := range d.Files {
			require.NotEmpty(t, f.Sums)
			for _, sum := range f.Sums {
				h, err := sum.hash(0)
				require.NoError(t, err)
				_, digits, _ := strings.Cut(string(sum), ":")
				require.Len(t, digits, 2*h.Size(), "%s %s", d.Name, f.Name)
			}
		}
		for _, origin := range d.Origins {
			address, err := url.Parse(origin)
			require.NoError(t, err)
			require.Equal(t, "https", address.Scheme)
			require.True(t, isArchive(origin) || strings.HasSuffix(address.Path, "/"), origin)
		}
	}
	_, known := Find("absent")
	require.False(t, known)
}
