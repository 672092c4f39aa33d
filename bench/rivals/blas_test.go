package main

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestOneDNNCloses checks that close ends the goroutine that calls oneDNN, for which no library is
// needed.
func TestOneDNNCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine remains
		o, made := &oneDNN{calls: make(chan func())}, 0
		go makeCalls(o.calls, func() { made++ })
		o.calls <- func() { made++ }
		r := &matrixRival{scorer: o}
		r.close()
		synctest.Wait()
		require.Equal(t, 2, made)
	})
}
