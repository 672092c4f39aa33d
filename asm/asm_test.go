package asm

import (
	"bufio"
	"fmt"
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
	"AVX512VBMI": {
		"AVX", "AVX2", "FMA3", "CMOV", "POPCNT", "MMX+",
		"AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL", "AVX512VNNI", "AVX512VBMI",
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
	var vex []string // the comment and the bytes of an AVX-VNNI instruction
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
			if strings.HasPrefix(text, "// {vex} ") || len(vex) > 0 {
				if vex = append(vex, text); len(vex) == 6 {
					if got := decodeVEX(vex[1:]); got != strings.TrimPrefix(vex[0], "// ") {
						complain("the bytes mean " + got)
					}
					vex = nil
				}
			}
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

// decodeVEX decodes a VEX instruction of map 0F38 with prefix 66 and three 256-bit registers, whose
// five bytes lines contain (Intel SDM, volume 2, "VEX"). Operands are in the order of Go's assembler.
func decodeVEX(lines []string) string {
	var code [5]byte
	for i, line := range lines {
		if n, err := fmt.Sscanf(line, "BYTE $0x%x", &code[i]); n != 1 || err != nil {
			return "no bytes"
		}
	}
	name := map[byte]string{0x50: "VPDPBUSD", 0x52: "VPDPWSSD"}[code[3]]
	// Byte 1 is R̄X̄B̄ and the map; byte 2 is W, v̄v̄v̄v̄, L and the prefix; byte 4 is mod, reg and rm.
	if code[0] != 0xc4 || code[1]&0x5f != 0x42 || code[2]&0x87 != 5 || code[4]>>6 != 3 || name == "" {
		return fmt.Sprintf("no instruction of AVX-VNNI: %x", code)
	}
	dst := 8*(^code[1]>>7&1) | code[4]>>3&7
	rm := 8*(^code[1]>>5&1) | code[4]&7
	return fmt.Sprintf("{vex} %s Y%d, Y%d, Y%d", name, rm, ^code[2]>>3&15, dst)
}

func TestDecodeVEX(t *testing.T) {
	for want, code := range map[string]string{ // from GNU as
		"{vex} VPDPBUSD Y5, Y4, Y1":    "c4 e2 5d 50 cd",
		"{vex} VPDPBUSD Y1, Y2, Y13":   "c4 62 6d 50 e9",
		"{vex} VPDPWSSD Y12, Y3, Y7":   "c4 c2 65 52 fc",
		"{vex} VPDPWSSD Y15, Y14, Y13": "c4 42 0d 52 ef",
	} {
		var lines []string
		for b := range strings.FieldsSeq(code) {
			lines = append(lines, "BYTE $0x"+b)
		}
		if got := decodeVEX(lines); got != want {
			t.Errorf("%s: got %s", want, got)
		}
	}
}
