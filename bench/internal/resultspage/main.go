// Resultspage writes docs/results.md, docs/reproduction.md and a table in README.md from the run
// records in docs/results:
//
//	go run ./bench/internal/resultspage
//
// datasets.jsonl lists the data sets, and NAME.jsonl lists the runs on the data set NAME. Both have
// one JSON object per line. page.md.tmpl and reproduction.md.tmpl contain the text around the tables.
// TestPages and TestReadme fail if a committed page is stale.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	docs := flag.String("docs", "docs", "`folder` with results/ and the pages")
	flag.Parse()
	if err := run(*docs); err != nil {
		log.Fatalf("resultspage: %v", err)
	}
}

func run(docs string) error {
	for name, template := range pages {
		page, err := render(filepath.Join(docs, "results"), template)
		if err != nil {
			return err
		}
		if err := update(filepath.Join(docs, name), page); err != nil {
			return err
		}
	}
	path := filepath.Join(docs, "..", "README.md")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page, err := withTable(old, filepath.Join(docs, "results"))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return update(path, page)
}

// update writes a page unless the file has the same contents.
func update(path string, page []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, page) {
		return nil
	}
	if err := os.WriteFile(path, page, 0o666); err != nil {
		return fmt.Errorf("cannot write the page: %w", err)
	}
	return nil
}
