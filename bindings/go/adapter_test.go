// SPDX-License-Identifier: Apache-2.0

package quarry_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"quarry.dev/quarry"
)

const rankOne = "../../models/product.safetensors"

func product(t *testing.T, s *quarry.Session) []float32 {
	t.Helper()
	outputs, err := s.Run(context.Background(), quarry.TensorOf([]float32{1, 10}, 1, 2))
	if err != nil {
		t.Fatal(err)
	}
	y, err := quarry.Data[float32](outputs[0])
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(y)
}

// y = x [[1, 2], [3, 4]], and with the adapter y += (x0 + x1) [1, -1].
func TestAdaptersTakeTurns(t *testing.T) {
	s, err := quarry.Open("../../models/product.onnx", quarry.Options{"threads": "1", "adapter.targets": "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.OpenAdapter(context.Background(), quarry.Source{Path: rankOne}, quarry.AdapterOptions{})
	var refused *quarry.Error
	if !errors.As(err, &refused) || refused.ID != "QR-A0004" {
		t.Fatalf("without alpha: %v", err)
	}
	whole, err := s.OpenAdapter(context.Background(), quarry.Source{Path: rankOne}, quarry.AdapterOptions{Alpha: 1})
	if err != nil {
		t.Fatal(err)
	}
	half, err := s.OpenAdapter(context.Background(), quarry.Source{Path: rankOne}, quarry.AdapterOptions{Alpha: 1, Strength: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	for _, turn := range []struct {
		adapter  *quarry.Adapter
		expected []float32
	}{{nil, []float32{31, 42}}, {whole, []float32{42, 31}}, {half, []float32{36.5, 36.5}}, {nil, []float32{31, 42}}, {whole, []float32{42, 31}}} {
		if err := s.SetAdapter(turn.adapter); err != nil {
			t.Fatal(err)
		}
		if y := product(t, s); !slices.Equal(y, turn.expected) {
			t.Errorf("found %v, expected %v", y, turn.expected)
		}
	}
	whole.Close()
	if y := product(t, s); !slices.Equal(y, []float32{42, 31}) {
		t.Errorf("the session keeps it: found %v", y)
	}
}
