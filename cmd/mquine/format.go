package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
)

// outputFormats are the formats that every command with the flag --format supports.
var outputFormats = []text.Format{
	text.FormatTable, text.FormatMarkdown, text.FormatLaTeX, text.FormatCSV, text.FormatJSON,
}

const formatHelp = "table, markdown, latex, csv or json"

// loadingHelp says how to load tab-separated files, whose labels may contain quotes or be NA.
const loadingHelp = `Tab-separated files do not quote labels. To load one:
  pandas  pd.read_csv(FILE, sep="\t", quoting=3, keep_default_na=False)
  R       read.delim(FILE, quote="", na.strings="", check.names=FALSE)
  DuckDB  read_csv('FILE', delim='\t', quote='', escape='', header=true)`

// formatFlag is a flag whose value is a format. It accepts md for markdown.
type formatFlag struct {
	choice[text.Format]
	printed *printed
}

func (f formatFlag) Set(name string) error {
	if strings.EqualFold(name, "md") {
		name = text.FormatMarkdown.String()
	}
	return f.choice.Set(name)
}

// printed holds the flags that say how to print a result.
type printed struct {
	format   text.Format
	jsonFile string
	// diverted says that the tables go to standard error if a file goes to standard output. Otherwise,
	// --json - leaves them out.
	diverted bool
}

// add adds the flags --format and --json. The command supports outputFormats and the formats in
// more.
func (p *printed) add(cmd *cobra.Command, more ...text.Format) {
	all := slices.Concat(outputFormats, more)
	help := formatHelp
	if len(more) > 0 {
		help = "table, markdown, latex, csv, json or " + more[0].String()
	}
	value := formatFlag{choice[text.Format]{&p.format, all}, p}
	cmd.Flags().Var(value, "format", "print the result in this format: "+help)
	complete(cmd, "format", cobra.FixedCompletions(names(all), cobra.ShellCompDirectiveNoFileComp))
	jsonFlag(cmd, &p.jsonFile)
}

// checkFormat refuses --format if it has no effect because --json writes to standard output.
func checkFormat(cmd *cobra.Command) error {
	f := cmd.Flag("format")
	if f == nil || !f.Changed {
		return nil
	}
	flag, ok := f.Value.(formatFlag)
	if !ok {
		return nil
	}
	if p := flag.printed; p.jsonFile == "-" && !p.diverted && p.format != text.FormatJSON {
		return fmt.Errorf("--json - prints JSON instead of --format %v: leave out one of them, "+
			"or name a file for --json", p.format)
	}
	return nil
}

// wantsJSON reports whether the result is written as JSON.
func (p *printed) wantsJSON() bool { return p.jsonFile != "" || p.format == text.FormatJSON }

// dataOf identifies a data set, with its checksum if the result is written as JSON.
func (p *printed) dataOf(ctx context.Context, g *kg.Graph) (metrics.Data, error) {
	digest := ""
	if p.wantsJSON() {
		var err error
		if digest, err = g.SHA256(ctx); err != nil {
			return metrics.Data{}, err
		}
	}
	return describedData(g, digest), nil
}

// result is the result of a command. It marshals as JSON.
type result interface {
	// tables returns the tables for the text formats.
	tables() []*text.Table
	// records returns the lines of CSV and TSV, with exact labels.
	records() (header []string, rows iter.Seq[[]string])
}

// remarks is a result with lines to print below its tables. Its method returns the lines unescaped.
type remarks interface{ remarks() []string }

// print writes a result to the file of --json and, in the format of --format, to standard output.
// If the JSON goes to standard output, print writes nothing else there.
func (p *printed) print(cmd *cobra.Command, r result) error {
	return writeAndPrint(cmd, p.jsonFile, r, func() error { return p.printTo(cmd.OutOrStdout(), r) })
}

// printTo writes a result in the format of --format.
func (p *printed) printTo(out io.Writer, r result) error {
	return unprinted(render(out, p.format, r))
}

func render(out io.Writer, f text.Format, r result) error {
	switch f {
	case text.FormatJSON:
		return text.WriteJSON(text.Exact(out), r)
	case text.FormatCSV, text.FormatTSV:
		header, rows := r.records()
		return text.WriteRecords(text.Exact(out), f, header, rows)
	}
	tables := r.tables()
	for i, t := range tables {
		if i > 0 {
			if _, err := io.WriteString(out, "\n"); err != nil {
				return err
			}
		}
		if err := t.Write(out, f); err != nil {
			return err
		}
	}
	if r, ok := r.(remarks); ok {
		for i, line := range r.remarks() {
			switch f {
			case text.FormatMarkdown:
				line = text.Markdown(line)
			case text.FormatLaTeX:
				line = "% " + text.Escape(line)
			default:
				line = text.Escape(line)
			}
			if i == 0 && len(tables) > 0 {
				line = "\n" + line
			}
			if _, err := fmt.Fprintln(out, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkTableFlags refuses flags that change only tables if the format has none.
func checkTableFlags(cmd *cobra.Command, f text.Format, flags ...string) error {
	if f != text.FormatCSV && f != text.FormatJSON {
		return nil
	}
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s changes tables, not %s: leave it out", name, strings.ToUpper(f.String()))
		}
	}
	return nil
}

// tableFlags holds the flags that eval and compare share for their tables of metrics.
type tableFlags struct{ metrics.TableOptions }

func (t *tableFlags) add(cmd *cobra.Command, sorted string) {
	t.Top = metrics.DefaultTop
	t.Least = 1
	flags := cmd.Flags()
	addChoice(cmd, &t.Sort, "sort", "order of groups in tables: "+sorted,
		metrics.UsualOrder, metrics.ByQueries, metrics.ByMRR, metrics.ByName)
	flags.Var(positive{n: &t.Least}, "min", "list only groups of at least N queries")
	flags.Var(positive{n: &t.Top}, "top", "list at most N groups")
	flags.BoolVar(&t.Wide, "wide", false, "also show less common metrics")
	flags.BoolVar(&t.Percent, "percent", false, "show MRR and Hits@k times 100")
	flags.BoolVar(&t.NoCI, "no-ci", false, "leave out intervals")
	flags.BoolVar(&t.Explain, "explain", false, "explain the numbers in a text below the tables")
}

// check refuses flags that do not affect the result in a format.
func (t *tableFlags) check(cmd *cobra.Command, f text.Format) error {
	if err := checkTableFlags(cmd, f, "sort", "min", "top", "wide", "percent", "no-ci", "explain"); err != nil {
		return err
	}
	if t.Explain && f == text.FormatLaTeX {
		return errors.New("--explain does not apply to --format latex: leave out one of them")
	}
	return nil
}
