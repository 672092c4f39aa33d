// Package layouttest measures the layout of HTML pages in a browser, for tests.
package layouttest

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

	"github.com/stretchr/testify/require"
)

// Layout holds a browser's measurements of a page.
type Layout struct {
	Width       int      `json:"width"` // without a scroll bar
	ScrollWidth int      `json:"scrollWidth"`
	Ground      string   `json:"ground"`
	Ink         string   `json:"ink"`
	Outside     []string `json:"outside"`  // elements beyond the right edge, except in parts that scroll
	Overlaps    []string `json:"overlaps"` // blocks that cover the previous block, and texts that cover each other
	Charts      int      `json:"charts"`   // visible charts
	Smallest    float64  `json:"smallest"` // height of the smallest text in the charts, in pixels
}

// measuring is a page with frames of several widths. Once it is loaded, its script measures the layout
// in each frame.
var measuring = template.Must(template.New("").Parse(`<!DOCTYPE html><meta charset="utf-8"><body>
<style>iframe { border: 0; }</style>
{{range .Widths}}<iframe width="{{.}}" height="900" srcdoc="{{$.Page}}"></iframe>{{end}}
<script>
const name = e => e.tagName + "." + (e.className.baseVal ?? e.className) + ": " + e.textContent.trim().slice(0, 40);
// corners returns the corners of a text, which may be rotated. It leaves out 1 pixel at each side, and a
// fifth of the height above and below, which ascenders and descenders seldom use.
function corners(text) {
  const {x, y, width, height} = text.getBBox(), m = text.getScreenCTM(), up = height / 5;
  return [[x + 1, y + up], [x + width - 1, y + up], [x + width - 1, y + height - up], [x + 1, y + height - up]]
    .map(([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]);
}
// cover reports whether two rectangles have a point in common: no side of either separates them.
function cover(p, q) {
  return [[p, 0], [p, 1], [q, 0], [q, 1]].every(([r, i]) => {
    const axis = [r[i + 1][0] - r[i][0], r[i + 1][1] - r[i][1]];
    const [a, b] = [p, q].map(r => r.map(c => c[0] * axis[0] + c[1] * axis[1]));
    return Math.min(...a) < Math.max(...b) && Math.min(...b) < Math.max(...a);
  });
}
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
        if (cover(corners(a), corners(b))) overlaps.push(name(a) + " | " + name(b));
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

// Measure measures a page in frames of the given widths, in pixels. It skips the test if there is no
// browser.
func Measure(t *testing.T, html string, dark bool, widths ...int) []Layout {
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
	var layouts []Layout
	unescaped := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(string(found[1]))
	require.NoError(t, json.Unmarshal([]byte(unescaped), &layouts))
	require.Len(t, layouts, len(widths))
	return layouts
}

// RequireFits checks that nothing lies outside the page and that nothing covers anything else.
func (l Layout) RequireFits(t *testing.T) {
	t.Helper()
	require.LessOrEqual(t, l.ScrollWidth, l.Width)
	require.Empty(t, l.Outside, "%d pixels", l.Width)
	require.Empty(t, l.Overlaps, "%d pixels", l.Width)
}
