// Package lint contains only tests. They check the rules of the project that no compiler checks:
//
//   - imports point down the layers (layers_test.go);
//   - lines have a bounded width (width_test.go);
//   - phrases that this project has given up do not return (phrases_test.go, phrases.txt);
//   - links and references in documents resolve (links_test.go);
//   - exported names have doc comments, and comments after code name their subject (comments_test.go);
//   - decisions have a number, a date, a status and a row in their table (decisions_test.go).
//
// Every failure names a file and a line. A test that fails ends with the number of failures in each
// top-level folder. TestSample checks nothing: it prints random sentences for an editor to read.
package lint
