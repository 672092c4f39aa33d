// Resultspage writes docs/results.md and docs/reproduction.md from the run records in docs/results:
//
//	go run ./bench/internal/resultspage
//
// datasets.jsonl lists the data sets, and NAME.jsonl lists the runs on the data set NAME. Both have
// one JSON object per line. page.md.tmpl and reproduction.md.tmpl contain the text around the tables.
// TestPages fails if a committed page is stale.
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
		path := filepath.Join(docs, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, page) {
			continue
		}
		if err := os.WriteFile(path, page, 0o666); err != nil {
			return fmt.Errorf("cannot write the page: %w", err)
		}
	}
	return nil
}
