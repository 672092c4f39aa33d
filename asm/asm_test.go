package asm

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// allowed maps the suffix of a kernel's name to the CPU features that the kernel may require.
var allowed = map[string][]string{
	"AVX2":    {"AVX", "AVX2", "FMA3", "CMOV", "POPCNT", "MMX+"},
	"AVXVNNI": {"AVX", "AVX2", "FMA3", "CMOV", "POPCNT", "MMX+", "AVX_VNNI"},
	"AVX512":  {"AVX", "AVX2", "FMA3", "CMOV", "POPCNT", "MMX+", "AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL"},

	"AVX512VNNI": {
		"AVX", "AVX2", "FMA3", "CMOV", "POPCNT", "MMX+",
		"AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL", "AVX512VNNI",
	},
	"AVX512BF16": {
		"AVX", "AVX2", "FMA3", "CMOV", "POPCNT", "MMX+",
		"AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL", "AVX512_BF16",
	},
	"AMX": {
		"AVX", "AVX2", "CMOV", "POPCNT", "MMX+",
		"AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL", "AMXTILE", "AMXINT8",
	},
	"AMXBF16": {"AVX", "CMOV", "MMX+", "AMXTILE", "AMXBF16"},
}

var (
	avx512Only = regexp.MustCompile(`\b(Z\d+|K[0-7]|[XY](1[6-9]|2\d|3[01]))\b|_Z\b|\.BCST|\.Z\b`)
	reserved   = regexp.MustCompile(`\b(R14|R15|BP)\b`)
	amx        = regexp.MustCompile(`^// (TILE[A-Z0-9]+|TDP[A-Z0-9]+|LDTILECFG)( |$)`)
	encoded    = regexp.MustCompile(`^(AMX|AMXBF16|AVX512BF16|AVXVNNI)$`) // suffixes of kernels with bytes
	vector     = regexp.MustCompile(`\b[XYZ]\d+\b`)
)

// TestInstructions reads the generated assembly. A kernel must use only the instruction sets that
// its suffix names, leave R14, R15 and BP to the Go runtime, mix no legacy SSE into AVX code and
// execute VZEROUPPER before it returns. Only AMX, BF16 and AVXVNNI kernels may contain instructions
// written as bytes.
// An AMX kernel must configure the tiles first and release them last; the test reads the names of
// AMX instructions from the comments above their bytes.
func TestInstructions(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no generated assembly found: %v", err)
	}
	functions := 0
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var name, suffix, previous string
		var tiles []string // the AMX instructions of the function
		var required []string
		scanner := bufio.NewScanner(f)
		for line := 1; scanner.Scan(); line++ {
			text := strings.TrimSpace(scanner.Text())
			complain := func(what string) { t.Errorf("%s:%d: %s: %s: %s", file, line, name, what, text) }
			switch {
			case strings.HasPrefix(text, "// Requires: "):
				required = strings.Split(strings.TrimPrefix(text, "// Requires: "), ", ")
			case strings.HasPrefix(text, "TEXT "):
				functions++
				name = strings.TrimPrefix(strings.Fields(text)[1], "·")
				name = name[:strings.Index(name, "(")]
				suffix, tiles = "", nil
				for s := range allowed {
					if strings.HasSuffix(name, s) && len(s) > len(suffix) {
						suffix = s
					}
				}
				if suffix == "" {
					complain("the name does not end in an instruction set")
				}
				for _, r := range required {
					if !slices.Contains(allowed[suffix], r) {
						complain("needs " + r)
					}
				}
				required = nil
			case amx.MatchString(text):
				tiles = append(tiles, strings.Fields(text)[1])
			case text == "", strings.HasPrefix(text, "//"), strings.HasPrefix(text, "#"), strings.HasSuffix(text, ":"):
			default:
				mnemonic := strings.Fields(text)[0]
				if (suffix == "AVX2" || suffix == "AVXVNNI") && avx512Only.MatchString(text) {
					complain("AVX-512 in a kernel for 256 bits")
				}
				if reserved.MatchString(text) {
					complain("register of the Go runtime")
				}
				if vector.MatchString(text) && !strings.HasPrefix(mnemonic, "V") && !strings.HasPrefix(mnemonic, "K") {
					complain("legacy SSE")
				}
				if mnemonic == "BYTE" && !encoded.MatchString(suffix) {
					complain("an instruction written as bytes")
				}
				if mnemonic == "RET" && previous != "VZEROUPPER" {
					complain("no VZEROUPPER before RET")
				}
				released := len(tiles) > 0 && tiles[0] == "LDTILECFG" && tiles[len(tiles)-1] == "TILERELEASE"
				if mnemonic == "RET" && strings.HasPrefix(suffix, "AMX") && !released {
					complain("does not configure the tiles first and release them last")
				}
				previous = mnemonic
			}
		}
		if err := scanner.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if functions == 0 {
		t.Fatal("no function found")
	}
}
