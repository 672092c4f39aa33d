package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
)

// WriteJSON writes v to w as a JSON document, indented by two spaces and safe to show on a terminal
// (see JSON). It does not escape HTML.
func WriteJSON(w io.Writer, v any) error {
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(JSON(document.Bytes()))
	return err
}

// JSON returns a JSON document that has the values of the given one and is safe to show on a terminal.
// Characters that Escape would escape become JSON escapes.
func JSON(document []byte) []byte {
	shown, _ := appendEscaped(nil, string(document), 0, "\n\t\r", jsonEscape)
	if shown == nil {
		return document
	}
	return shown
}

func jsonEscape(b []byte, r rune) []byte {
	if r <= 0xffff {
		return fmt.Appendf(b, `\u%04x`, r)
	}
	high, low := utf16.EncodeRune(r)
	return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
}
