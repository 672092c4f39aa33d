package text

import (
	"bytes"
	"encoding/json"
	"html"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	rendering "github.com/yuin/goldmark/renderer/html"
	"pgregory.net/rapid"
)

func TestEscape(t *testing.T) {
	for given, want := range map[string]string{
		"":                         "",
		"a\x1b[31mred":             `a\x1b[31mred`,
		"\x1b]52;c;cm0gLXJmIH4=\a": `\x1b]52;c;cm0gLXJmIH4=\x07`,
		"a\b\b\x7f\x00":            `a\x08\x08\x7f\x00`,
		"line\nof\ttabs\r":         `line\nof\ttabs\r`,
		"\u009b31m":                `\u009b31m`,
		"\x9b31m":                  `\x9b31m`, // not UTF-8
		"ab\xe2\x82":               `ab\xe2\x82`,
		"user\u202egnp.exe":        `user\u202egnp.exe`,
		"\u200f\u061c\u2066\u2028": `\u200f\u061c\u2066\u2028`,
		"zero\u200bwidth\ufeff":    `zero\u200bwidth\ufeff`,
		"soft\u00adhyphen":         `soft\u00adhyphen`,
		"\U000e0041\U000e007f":     `\U000e0041\U000e007f`,
		"\u3164\u115f":             `\u3164\u115f`,
		"steroid\u200d":            `steroid\u200d`,
		"\u200djoins":              `\u200djoins`,
		"a\ufe0f":                  `a\ufe0f`,
		"é\u200c\u200c":            "é\u200c" + `\u200c`,
		"❤\ufe0f\ufe0f":            "❤\ufe0f" + `\ufe0f`,
		"❤\ufe0f\u200d\u200d":      "❤\ufe0f\u200d" + `\u200d`,
		"é\x1b\u200d":              `é\x1b\u200d`,
		`C:\new\x1b`:               `C:\new\x1b`,
		"\ufffd":                   "\ufffd",
	} {
		assert.Equal(t, want, Escape(given))
	}
}

func TestEscapeLeavesOrdinaryText(t *testing.T) {
	for _, s := range []string{
		"/film/film/genre", "has_genre", "a b", "Ångström", "e\u0301tude", "non\u00a0breaking", "Straße 〇一二三", "日本語　空白",
		"قاعدة البيانات", "می\u200cخواهم", "\u06dd١٢", "שלום", "हिन्दी", "क्\u200dष", "ന്\u200d",
		"ᠮᠣᠩ\u180bᠭᠣᠯ", "葛\U000e0100",
		"😀", "👩\u200d💻", "👩🏽\u200d🚒", "🏳\ufe0f\u200d🌈", "❤\ufe0f\u200d🔥", "🇫🇷", "①", "\ue000", "½ ∑ → █",
	} {
		assert.Equal(t, s, Escape(s))
	}
}

// TestEscapeCharacters checks every character. Go reads an escape back as the original character.
// An unescaped character is neither a control character nor a character that Unicode lists for its
// effect on the display.
func TestEscapeCharacters(t *testing.T) {
	misleading := func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Join_Control, unicode.Pattern_White_Space,
			unicode.Variation_Selector) && r != ' ' ||
			r >= 0x2060 && r <= 0x206f || r >= 0xe0000 && r <= 0xe0fff || r >= 0xfff9 && r <= 0xfffb ||
			r == 0xfeff || r == 0x200b
	}
	for r := range rune(unicode.MaxRune + 1) {
		if !utf8.ValidRune(r) {
			continue
		}
		s := string(r)
		shown := Escape(s)
		if shown == s {
			require.False(t, misleading(r), "%U", r)
			continue
		}
		require.False(t, unicode.In(r, unicode.Letter, unicode.Number, unicode.Symbol, unicode.Punct) &&
			!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), "%U", r)
		read, err := strconv.Unquote(`"` + shown + `"`)
		require.NoError(t, err)
		require.Equal(t, s, read)
	}
}

// hostile generates text that is full of dangerous characters.
var hostile = rapid.StringOf(rapid.SampledFrom([]rune("ab1_*|`<>[]()!&;#$~\\:/\n\r\t\x1b\a\x7f" +
	"\u009b\u200b\u200d\u200c\u202e\u2066\u2028\ufe0fé❤👩\U000e0041 ")))

// requireShown checks that every character is visible. If lines is true, it allows line feeds and
// tabs.
func requireShown(t require.TestingT, s string, lines bool) {
	require.True(t, utf8.ValidString(s), "%q", s)
	for _, r := range s {
		if lines && (r == '\n' || r == '\t') {
			continue
		}
		hidden := unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
		require.False(t, hidden || r == '\u200b' || r >= 0xe0000, "%q", s)
	}
}

func TestEscapeTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shown := Escape(hostile.Draw(t, "text"))
		requireShown(t, shown, false)
		require.Equal(t, shown, Escape(shown))
	})
}

// TestMarkdown renders the output of Markdown with tables and raw HTML enabled. The page must show
// the output of Escape as plain text.
func TestMarkdown(t *testing.T) {
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithRendererOptions(rendering.WithUnsafe()))
	check := func(t require.TestingT, s string) {
		var page bytes.Buffer
		require.NoError(t, markdown.Convert([]byte("| h | i |\n| --- | --- |\n| "+Markdown(s)+" | end |\n"), &page))
		_, cell, found := strings.Cut(page.String(), "<tbody>\n<tr>\n<td>")
		require.True(t, found, page.String())
		cell, rest, _ := strings.Cut(cell, "</td>\n")
		require.Equal(t, "<td>end</td>\n</tr>\n</tbody>\n</table>\n", rest)
		require.NotContains(t, cell, "<")
		require.Equal(t, strings.Trim(Escape(s), " "), html.UnescapeString(cell))
	}
	for _, s := range []string{
		"<script>alert(1)</script>", "](javascript:alert(1))", "[x](javascript:alert(1))", "![x](http://x/y.png)",
		"a|b", "`a|b`", `\|`, `\`, "&lt;b&gt;", "*a* _b_ __c__ ~~d~~ $e$", "<!-- x", "<http://x>", "a_b_c", "_a", "a_",
		"a__b", "\n\n# title", "has_genre", "/film/film/genre", `"quoted" 'too'`,
	} {
		check(t, s)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, hostile.Draw(t, "text")) })
	assert.Equal(t, "has_genre", Markdown("has_genre"))
	assert.Equal(t, `\_a\_ a\|b &lt;b&gt; \\x1b \[x\](y)`, Markdown("_a_ a|b <b> \x1b [x](y)"))
}

func TestJSON(t *testing.T) {
	document := []byte("{\n  \"a\\u001b\u009b\x7f\": \"\u202e\U000e0041 👩\u200d💻\"\n}\n")
	assert.Equal(t, "{\n  \"a\\u001b\\u009b\\u007f\": \"\\u202e\\udb40\\udc41 👩\u200d💻\"\n}\n", string(JSON(document)))
	plain := []byte(`{"a": 1}`)
	assert.Equal(t, plain, JSON(plain))
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]string{hostile.Draw(t, "key"): hostile.Draw(t, "value")}
		document, err := json.Marshal(want)
		require.NoError(t, err)
		shown := JSON(document)
		requireShown(t, string(shown), false)
		var got map[string]string
		require.NoError(t, json.Unmarshal(shown, &got))
		require.Equal(t, want, got)
	})
}

// Columns are as wide as their escaped cells.
func TestTable(t *testing.T) {
	table := NewTable(2)
	table.AppendHeader([]any{"label\x1b[2J", "n"})
	table.AppendRow([]any{"a\u202eb\n", 1})
	table.AppendRow([]any{"\tc", 1000})
	table.AppendRow([]any{[]byte{27}, 2})
	assert.Equal(t, strings.Join([]string{
		`label\x1b[2J     n`,
		`a\u202eb\n       1`,
		`\tc           1000`,
		`[27]             2`,
	}, "\n"), table.Render())
}

func TestTableInMarkdown(t *testing.T) {
	table := NewTable(2)
	table.AppendHeader([]any{"by", "MRR [95% CI]"})
	table.AppendRow([]any{"<b>|\n", "0.5 [0.4, 0.6]"})
	table.AppendRow([]any{"has_genre", 1})
	assert.Equal(t, `| by | MRR [95% CI] |
| --- | ---:|
| &lt;b&gt;\|\\n | 0.5 [0.4, 0.6] |
| has_genre | 1 |
`, table.Markdown())
}

func TestPlural(t *testing.T) {
	for want, got := range map[string]string{
		"1 query": Plural(1, "query"), "2 queries": Plural(2, "query"), "0 triples": Plural(0, "triple"),
		"14,541 test triples":  Plural(14541, "test triple"),
		"1 entity occurs":      Count(1, "entity occurs", "entities occur"),
		"2,000 entities occur": Count(2000, "entity occurs", "entities occur"),
	} {
		assert.Equal(t, want, got)
	}
	assert.Equal(t, "9,000,000,000", Comma(uint64(9e9)))
}

func TestWriteJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, WriteJSON(&out, map[string]any{"a": []string{"<b>\x1b\u202e"}}))
	assert.Equal(t, "{\n  \"a\": [\n    \"<b>\\u001b\\u202e\"\n  ]\n}\n", out.String())
	require.Error(t, WriteJSON(&out, func() {}))
}

func TestName(t *testing.T) {
	type ends uint8
	names := []string{"head", "tail", "both"}
	for v, name := range names {
		assert.Equal(t, name, Name(names, ends(v), "ends"))
		read, err := ParseName[ends](names, name, "ends")
		require.NoError(t, err)
		assert.Equal(t, ends(v), read)
	}
	assert.Equal(t, "ends(3)", Name(names, ends(3), "ends"))
	_, err := ParseName[ends](names, "none", "ends")
	assert.EqualError(t, err, `unknown ends "none": choose head, tail or both`)
}
