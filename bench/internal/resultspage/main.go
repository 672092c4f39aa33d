// Resultspage writes docs/results.md from the run records in docs/results:
//
//	go run ./bench/internal/resultspage
//
// datasets.jsonl lists the data sets, and NAME.jsonl lists the runs on the data set NAME. Both have
// one JSON object per line. page.md.tmpl contains the text around the tables. TestPage fails if the
// committed page is stale.
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
	docs := flag.String("docs", "docs", "`folder` with results/ and the page")
	flag.Parse()
	if err := run(*docs); err != nil {
		log.Fatalf("resultspage: %v", err)
	}
}

func run(docs string) error {
	page, err := render(filepath.Join(docs, "results"))
	if err != nil {
		return err
	}
	path := filepath.Join(docs, "results.md")
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, page) {
		return nil
	}
	if err := os.WriteFile(path, page, 0o666); err != nil {
		return fmt.Errorf("cannot write the page: %w", err)
	}
	return nil
}
