// SPDX-License-Identifier: Apache-2.0

package quarry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry"
)

// present = past and x behind it, y its sum.
func keeping(t *testing.T) *quarry.Session {
	t.Helper()
	s, err := quarry.Open("../../models/cache.onnx", quarry.Options{"threads": "1", "state": "past:present", "state.capacity": "4"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func added(t *testing.T, s *quarry.Session, x ...float32) []float32 {
	t.Helper()
	outputs, err := s.Run(context.Background(), quarry.TensorOf(x, 1, 1, 2))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := quarry.Data[float32](outputs[0])
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func stateOf(t *testing.T, s *quarry.Session) *quarry.State {
	t.Helper()
	state, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(state.Close)
	return state
}

func wantSums(t *testing.T, found []float32, wanted ...float32) {
	t.Helper()
	if !slices.Equal(found, wanted) {
		t.Errorf("found %v, expected %v", found, wanted)
	}
}

func TestAWindowSlidesOverState(t *testing.T) {
	s, err := quarry.Open("../../models/cache.onnx", quarry.Options{"threads": "1", "state": "past:present", "state.capacity": "4", "state.window": "1", "state.sink": "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 9 {
		added(t, s, 1, 2)
	}
	wantSums(t, added(t, s, 5, 5), 7, 9) // the first and the last before it
	state := stateOf(t, s)
	length, err := state.Length()
	if dropped, failed := state.Dropped(); length != 2 || dropped != 8 || err != nil || failed != nil {
		t.Errorf("length %d, dropped %d, %v, %v", length, dropped, err, failed)
	}
}

func TestStateGrowsAndIsForked(t *testing.T) {
	s := keeping(t)
	wantSums(t, added(t, s, 1, 2), 1, 2)
	wantSums(t, added(t, s, 3, 4), 4, 6)
	state := stateOf(t, s)
	if length, err := state.Length(); length != 2 || err != nil {
		t.Errorf("length %d, %v", length, err)
	}
	pairs, err := state.Tensors()
	if err != nil || len(pairs) != 1 || pairs[0].Input != "past" || pairs[0].Output != "present" || pairs[0].Axis != 1 || pairs[0].Capacity != 4 ||
		!slices.Equal(pairs[0].Shape, []int{1, 2, 2}) {
		t.Errorf("pairs %+v, %v", pairs, err)
	}
	fork, err := state.Fork()
	if err != nil {
		t.Fatal(err)
	}
	defer fork.Close()
	if err := state.Rewind(1); err != nil {
		t.Fatal(err)
	}
	wantSums(t, added(t, s, 10, 10), 11, 12)
	if err := s.SetState(fork); err != nil {
		t.Fatal(err)
	}
	wantSums(t, added(t, s, 10, 10), 14, 16)
	if err := stateOf(t, s).Reset(); err != nil {
		t.Fatal(err)
	}
	wantSums(t, added(t, s, 5, 5), 5, 5)
}

func TestStateIsSavedReadAndWritten(t *testing.T) {
	first, second := keeping(t), keeping(t)
	added(t, first, 1, 2)
	var saved []byte
	if err := stateOf(t, first).Save(context.Background(), quarry.Target{Memory: &saved}); err != nil {
		t.Fatal(err)
	}
	state := stateOf(t, second)
	if err := state.Load(saved); err != nil {
		t.Fatal(err)
	}
	wantSums(t, added(t, second, 3, 4), 4, 6)
	kept, err := state.Read("past")
	if err != nil {
		t.Fatal(err)
	}
	values, _ := quarry.Data[float32](kept)
	wantSums(t, values, 1, 2, 3, 4)
	if err := state.Write("present", quarry.TensorOf([]float32{7, 8}, 1, 1, 2)); err != nil {
		t.Fatal(err)
	}
	wantSums(t, added(t, second, 1, 1), 8, 9)

	saved[20] ^= 1
	var failed *quarry.Error
	if err := state.Load(saved); !errors.As(err, &failed) || failed.Code != quarry.Corrupt {
		t.Errorf("a damaged state: %v", err)
	}
	if _, err := state.Read("future"); err == nil || !strings.Contains(err.Error(), "'future'") || !strings.Contains(err.Error(), "'past'") {
		t.Errorf("a pair that is not there: %v", err)
	}
}

func TestStateRefuses(t *testing.T) {
	s := keeping(t)
	for range 4 {
		added(t, s, 1, 1)
	}
	if _, err := s.Run(context.Background(), quarry.TensorOf([]float32{1, 1}, 1, 1, 2)); err == nil || !strings.Contains(err.Error(), "state.capacity") {
		t.Errorf("more than there is room for: %v", err)
	}
	state := stateOf(t, s)
	if err := state.Rewind(5); err == nil {
		t.Error("rewound past its length")
	}
	state.Close()
	if _, err := state.Length(); err == nil {
		t.Error("a closed state has a length")
	}
	if _, err := state.Read("past"); err == nil {
		t.Error("a closed state is read")
	}
	if err := s.SetState(nil); err == nil {
		t.Error("no state was set")
	}
	without, err := quarry.Open("../../models/cache.onnx", quarry.Options{"shape": "past=1,tokens=1"})
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if _, err := without.State(); err == nil {
		t.Error("a session that keeps nothing has a state")
	}
}
