package report

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layoutOf is what a browser measures in a page.
type layoutOf struct {
	Width       int      `json:"width"` // without a scroll bar
	ScrollWidth int      `json:"scrollWidth"`
	Ground      string   `json:"ground"`
	Ink         string   `json:"ink"`
	Outside     []string `json:"outside"`  // elements beyond the right edge that nothing scrolls
	Overlaps    []string `json:"overlaps"` // blocks that cover the block before, and texts that cover each other
	Charts      int      `json:"charts"`   // visible charts
	Smallest    float64  `json:"smallest"` // height of the smallest text in them, in pixels
}

// measuring is a page with frames of several widths. It measures each of them once it is loaded.
var measuring = template.Must(template.New("").Parse(`<!DOCTYPE html><meta charset="utf-8"><body>
<style>iframe { border: 0; }</style>
{{range .Widths}}<iframe width="{{.}}" height="900" srcdoc="{{$.Page}}"></iframe>{{end}}
<script>
const name = e => e.tagName + "." + (e.className.baseVal ?? e.className) + ": " + e.textContent.trim().slice(0, 40);
function measure(frame) {
  const d = frame.contentDocument, w = frame.contentWindow, style = w.getComputedStyle(d.body);
  const box = e => e.getBoundingClientRect(), outside = [], overlaps = [];
  for (const e of d.body.querySelectorAll("*"))
    if (!e.closest(".scroll, svg, details:not([open])") && box(e).right > d.documentElement.clientWidth + 1)
      outside.push(name(e));
  for (const parent of [d.body, ...d.querySelectorAll("main, section, header")]) {
    let bottom = -Infinity;
    for (const e of parent.children) {
      if (box(e).height == 0) continue;
      if (box(e).top < bottom - 1) overlaps.push(name(e));
      bottom = box(e).bottom;
    }
  }
  let charts = 0, smallest = Infinity;
  for (const svg of d.querySelectorAll("svg.plot")) {
    if (box(svg).width == 0) continue;
    charts++;
    const texts = [...svg.querySelectorAll("text")];
    for (const [i, a] of texts.entries()) {
      smallest = Math.min(smallest, box(a).height);
      for (const b of texts.slice(0, i)) {
        const x = Math.min(box(a).right, box(b).right) - Math.max(box(a).left, box(b).left);
        const y = Math.min(box(a).bottom, box(b).bottom) - Math.max(box(a).top, box(b).top);
        if (x > 2 && y > 5) overlaps.push(name(a) + " | " + name(b));
      }
    }
  }
  return {width: d.documentElement.clientWidth, scrollWidth: d.documentElement.scrollWidth,
    ground: style.backgroundColor, ink: style.color, outside, overlaps, charts, smallest};
}
addEventListener("load", () => {
  const result = [...document.querySelectorAll("iframe")].map(measure);
  document.body.innerHTML = "";
  const pre = document.createElement("pre");
  pre.textContent = JSON.stringify(result);
  document.body.append(pre);
});
</script>`))

// browse measures a page in frames of the given widths. It skips the test if there is no browser.
func browse(t *testing.T, html string, dark bool, widths ...int) []layoutOf {
	t.Helper()
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("the layout of the page is not checked: there is no chromium, chromium-browser or google-chrome")
	}
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "measure.html"))
	require.NoError(t, err)
	require.NoError(t, measuring.Execute(file, map[string]any{"Widths": widths, "Page": html}))
	require.NoError(t, file.Close())

	scheme := 1 // light
	if dark {
		scheme = 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--window-size=1600,1000",
		fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme), "--dump-dom", "file://"+file.Name())
	var problems strings.Builder
	cmd.Stderr = &problems
	dom, err := cmd.Output()
	require.NoError(t, err, problems.String())
	found := regexp.MustCompile(`<pre>(.*)</pre>`).FindSubmatch(dom)
	require.NotNil(t, found, "%s\n%s", dom, problems.String())
	var layouts []layoutOf
	unescaped := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(string(found[1]))
	require.NoError(t, json.Unmarshal([]byte(unescaped), &layouts))
	require.Len(t, layouts, len(widths))
	return layouts
}

// The page fits screens of every width, even with long names. Nothing covers anything else, and the
// text of charts is legible.
func TestLayout(t *testing.T) {
	for _, test := range []struct {
		prefix      string
		dark        bool
		ground, ink string
	}{
		{"", false, "rgb(255, 255, 255)", "rgb(27, 31, 36)"},
		{"https://example.org/a/rather/long/name/without/any/space#", true, "rgb(16, 20, 26)", "rgb(228, 233, 239)"},
	} {
		for _, l := range browse(t, written(t, full(t, test.prefix)), test.dark, 390, 768, 1400) {
			assert.LessOrEqual(t, l.ScrollWidth, l.Width)
			assert.Empty(t, l.Outside, l.Width)
			assert.Empty(t, l.Overlaps, l.Width)
			assert.Equal(t, []string{test.ground, test.ink}, []string{l.Ground, l.Ink}, l.Width)
			assert.Equal(t, 11, l.Charts, l.Width)
			assert.GreaterOrEqual(t, l.Smallest, 10.0, l.Width)
		}
	}
}
