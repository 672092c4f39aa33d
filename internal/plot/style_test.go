package plot

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// linear returns the linear red, green and blue of a colour such as #1b1f24 (IEC 61966-2-1).
func linear(t *testing.T, colour string) (rgb [3]float64) {
	t.Helper()
	var bytes [3]int
	_, err := fmt.Sscanf(colour, "#%02x%02x%02x", &bytes[0], &bytes[1], &bytes[2])
	require.NoError(t, err)
	for i, b := range bytes {
		if v := float64(b) / 255; v <= 0.04045 {
			rgb[i] = v / 12.92
		} else {
			rgb[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return rgb
}

// contrast returns the contrast ratio of WCAG 2.
func contrast(t *testing.T, a, b string) float64 {
	luminance := func(colour string) float64 {
		c := linear(t, colour)
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
	}
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// visions contains the matrices of Machado, Oliveira and Fernandes (2009) for linear colours.
var visions = map[string][3][3]float64{
	"usual":        {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// lab returns a colour in CIELAB, as a reader with a colour vision deficiency sees it.
func lab(t *testing.T, colour string, vision [3][3]float64) [3]float64 {
	c := linear(t, colour)
	var seen [3]float64
	for i, row := range vision {
		seen[i] = min(max(row[0]*c[0]+row[1]*c[1]+row[2]*c[2], 0), 1)
	}
	f := func(v float64) float64 {
		if v > 216./24389 {
			return math.Cbrt(v)
		}
		return (24389./27*v + 16) / 116
	}
	x := f((0.4124*seen[0] + 0.3576*seen[1] + 0.1805*seen[2]) / 0.9505)
	y := f(0.2126*seen[0] + 0.7152*seen[1] + 0.0722*seen[2])
	z := f((0.0193*seen[0] + 0.1192*seen[1] + 0.9505*seen[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// Hues are legible as text, and no two of them look alike with any of the kinds of colour vision in
// visions.
func TestPalettes(t *testing.T) {
	for name, p := range map[string]palette{"light": light, "dark": dark} {
		assert.GreaterOrEqual(t, contrast(t, p.ink, p.paper), 12.0, name)
		assert.GreaterOrEqual(t, contrast(t, p.soft, p.paper), 4.5, name)
		for i, a := range p.hues {
			assert.GreaterOrEqual(t, contrast(t, a, p.paper), 4.5, "%s, hue %d", name, i+1)
			for j, b := range p.hues[:i] {
				for vision, matrix := range visions {
					la, lb := lab(t, a, matrix), lab(t, b, matrix)
					distance := math.Hypot(math.Hypot(la[0]-lb[0], la[1]-lb[1]), la[2]-lb[2])
					assert.GreaterOrEqual(t, distance, 15.0, "%s, hues %d and %d, %s", name, j+1, i+1, vision)
				}
			}
		}
	}
}
