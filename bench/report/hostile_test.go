package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHostileResults checks that text in the fields of the results cannot end an element, an
// attribute or a comment of the page, and cannot hide other text.
func TestHostileResults(t *testing.T) {
	const (
		value = "v\"' onload=alert(1) </title></svg></style>--><script>alert(1)</script>\x1b]0;t\a\u202e\x9b"
		name  = "n\"'onload=alert(1)<script>alert(1)<-script>\x1b\u202e" // without spaces and slashes
	)
	dir := t.TempDir()
	class := filepath.Join(dir, name)
	require.NoError(t, os.Mkdir(class, 0o777))
	for i := range 2 {
		var text strings.Builder
		keys := []string{"goos", "goarch", "pkg", "cpu", "threads", "commit-time", "measured", "go", "ceiling"}
		for _, key := range keys {
			fmt.Fprintf(&text, "%s: %s\n", key, value)
		}
		fmt.Fprintf(&text, "tier: %s\ncommit: %d+%s\n", name, i, value)
		for range 6 {
			const values = "10 100 ns/op 90 cpu-ns/op 9 GFLOP/s 1 GB/s 80 pct-peak"
			fmt.Fprintf(&text, "BenchmarkPanel/tier=%[1]s/compare=%[1]s/%[1]s-2 %[2]s 1 %[1]s\n", name, values)
			fmt.Fprintf(&text, "BenchmarkPanel/tier=avx2/%s-2 %s\n", name, values)
			fmt.Fprintf(&text, "BenchmarkEvaluate/%s/rival=mquine-2 1 50 ns/op\n", name)
			fmt.Fprintf(&text, "BenchmarkEvaluate/%[1]s/rival=%[1]s-2 1 60 ns/op\n", name)
			fmt.Fprintf(&text, "Benchmark%s/%[1]s-2 1 60 ns/op\n", strings.ToUpper(name))
			for _, of := range []string{"fma32", "read-l1", name} {
				fmt.Fprintf(&text, "BenchmarkCeiling/tier=%s/of=%s/threads=1-2 1 100 ns/op ", name, of)
				text.WriteString("99 GFLOP/s 50 GB/s\n")
			}
		}
		require.NoError(t, os.WriteFile(filepath.Join(class, fmt.Sprintf("%d.txt", i)), []byte(text.String()), 0o666))
	}
	var page bytes.Buffer
	require.NoError(t, Write(t.Context(), &page, dir))
	html := page.String()

	shown := template.HTMLEscapeString(`v"' onload=alert(1) </title></svg></style>--><script>alert(1)</script>`)
	assert.Contains(t, html, shown+`\x1b]0;t\x07\u202e\x9b`)
	assert.Contains(t, html, `<title>1+v&#34;&#39; onload: `, "both parts of the commit are shortened")
	assert.Empty(t, regexp.MustCompile(`(?i)<script|<!--|-->`).FindString(html))
	assert.NotRegexp(t, `(?i)<[^>]*["'\s]onload`, html)
	for _, r := range html {
		require.False(t, r != '\n' && unicode.In(r, unicode.Cc, unicode.Bidi_Control), "%q", r)
	}
	// The pictures are still well-formed, and none of them ended early.
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(html, -1)
	require.GreaterOrEqual(t, len(pictures), 5)
	for _, p := range pictures {
		require.NoError(t, xml.Unmarshal([]byte(p), new(struct{})), p)
	}
	assert.Equal(t, strings.Count(html, "<svg "), strings.Count(html, "</svg>"))
}

func TestShort(t *testing.T) {
	for id, want := range map[string]string{
		"":                       "unknown",
		"0123456789abcdef":       "0123456789",
		"0123456789abcdef+dirty": "0123456789+dirty",
		"0123456789ab-dirty":     "0123456789+dirty",
		"0123+0123456789abcdef":  "0123+0123456789",
		"éééééééééééé+éééééééééé!": "éééééééééé+éééééééééé",
	} {
		assert.Equal(t, want, short(id))
	}
}
