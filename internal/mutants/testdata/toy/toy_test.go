package toy

import "testing"

func TestMax(t *testing.T) {
	if Max(1, 2) != 2 || Max(2, 1) != 2 {
		t.Fail()
	}
}

func TestSum(t *testing.T) {
	if Sum(3) != 6 {
		t.Fail()
	}
}

func TestWrong(t *testing.T) { t.Fatal("this test always fails") }
