package text

// Format is an output format of results.
type Format uint8

const (
	// FormatTable is aligned text.
	FormatTable Format = iota
	// FormatMarkdown is GitHub's Markdown.
	FormatMarkdown
	// FormatLaTeX is a table environment, which needs the package booktabs.
	FormatLaTeX
	// FormatCSV has one header and a line for each set of numbers, with exact labels.
	FormatCSV
	// FormatJSON is JSON with a versioned schema.
	FormatJSON
	// FormatTSV is like FormatCSV, but separates fields with tabs and quotes nothing.
	FormatTSV
)

// String returns "table", "markdown", "latex", "csv", "json" or "tsv".
func (f Format) String() string {
	return Name([]string{"table", "markdown", "latex", "csv", "json", "tsv"}, f, "Format")
}
