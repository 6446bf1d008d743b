// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.dev/quarry"
)

// What a small Llama makes of the beginning of a story, by ONNX Runtime.
var (
	prompt = []int64{1, 3, 34, 9, 22, 4, 3, 18, 20, 7}
	story  = []int64{9, 3, 5, 3, 6, 10, 16, 4, 25, 3, 6, 8, 4, 13, 4, 3, 17, 5, 12, 3, 5, 3, 14, 10}
)

func open(t testing.TB, options quarry.Options) *quarry.Session {
	model := filepath.Join(os.Getenv("QUARRY_SHARED"), "models", "babyllama105_kv_f32", "model.onnx")
	if _, err := os.Stat(model); err != nil {
		t.Skipf("there is no %s", model)
	}
	session, err := quarry.Open(model, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

func start(t testing.TB, session *quarry.Session, settings Settings) *Generator {
	g, err := New(context.Background(), session, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	if err := g.Prompt(context.Background(), prompt); err != nil {
		t.Fatal(err)
	}
	return g
}

var keeps = quarry.Options{"state": "auto", "threads": "1"}

func TestTokens(t *testing.T) {
	g := start(t, open(t, keeps), Settings{MaxNewTokens: uint64(len(story))})
	var found []int64
	count, end, err := g.Run(context.Background(), func(token int64) bool { found = append(found, token); return true })
	if err != nil || end != Length || count != uint64(len(story)) || !slices.Equal(found, story) {
		t.Fatal(found, count, end, err)
	}
	has, err := g.Sequence()
	if err != nil || !slices.Equal(has.Tokens, append(slices.Clone(prompt), story...)) || has.Run != has.Capacity-2048+uint64(len(has.Tokens))-1 || has.Vocabulary != 105 {
		t.Fatal(has, err)
	}
	// The same prompt again is not run again, but for its last token; a choice of one's own goes on from there.
	if err := g.Prompt(context.Background(), prompt); err != nil {
		t.Fatal(err)
	}
	if has, err = g.Sequence(); err != nil || has.Reused != uint64(len(prompt)-1) {
		t.Fatal(has, err)
	}
	logits, err := g.Logits(context.Background())
	if err != nil || len(logits) != 105 || slices.Index(logits, slices.Max(logits)) != int(story[0]) {
		t.Fatal(len(logits), err)
	}
	if err := g.Accept(story[0]); err != nil {
		t.Fatal(err)
	}
	if token, end, err := g.Step(context.Background()); token != story[1] || end != None || err != nil {
		t.Fatal(token, end, err)
	}
	if err := g.Rewind(99); err == nil || !strings.Contains(err.Error(), "99") {
		t.Fatal(err)
	}
}

func TestEnds(t *testing.T) {
	session := open(t, keeps)
	g := start(t, session, Settings{StopTokens: []int64{77, story[5]}})
	if count, end, err := g.Run(context.Background(), nil); count != 6 || end != StopToken || err != nil {
		t.Fatal(count, end, err)
	}
	if count, end, err := g.Run(context.Background(), func(int64) bool { return false }); count != 1 || end != Callback || err != nil {
		t.Fatal(count, end, err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if count, end, err := g.Run(ended, nil); count != 0 || end != Aborted || err != nil {
		t.Fatal(count, end, err)
	}
	late, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	if count, end, err := g.Run(late, nil); count != 0 || end != Deadline || err != nil {
		t.Fatal(count, end, err)
	}
	small := start(t, open(t, quarry.Options{"state": "auto", "state.capacity": "14"}), Settings{})
	if count, end, err := small.Run(context.Background(), nil); count != 5 || end != Capacity || err != nil {
		t.Fatal(count, end, err)
	}
	drawn := start(t, session, Settings{Temperature: 1.5, TopK: 50, Seed: 3, MaxNewTokens: 12})
	again := start(t, session, Settings{Temperature: 1.5, TopK: 50, Seed: 3, MaxNewTokens: 12})
	for _, one := range []*Generator{drawn, again} {
		if _, _, err := one.Run(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	one, _ := drawn.Sequence()
	other, _ := again.Sequence()
	if !slices.Equal(one.Tokens, other.Tokens) {
		t.Fatal(one, other)
	}
}

func TestSavedBeginning(t *testing.T) {
	session := open(t, keeps)
	g := start(t, session, Settings{MaxNewTokens: 4})
	state, err := g.State()
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	has, _ := g.Sequence()
	var saved []byte
	if err := state.Save(context.Background(), quarry.Target{Memory: &saved}); err != nil {
		t.Fatal(err)
	}
	other, err := New(context.Background(), session, Settings{MaxNewTokens: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	there, err := other.State()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if err := there.Load(saved); err != nil {
		t.Fatal(err)
	}
	if err := other.Restore(has.Tokens[:has.Run]); err != nil {
		t.Fatal(err)
	}
	if err := other.Prompt(context.Background(), prompt); err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if found, _ := other.Sequence(); !slices.Equal(found.Tokens[len(prompt):], story[:4]) {
		t.Fatal(found)
	}
}

func TestRefused(t *testing.T) {
	var failed *quarry.Error
	session, err := quarry.Open("../../../models/digits/digits.onnx", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(context.Background(), session, Settings{}); !errors.As(err, &failed) || failed.ID != "QR-R0032" {
		t.Fatal(err)
	}
	session.Close()
	if _, err := New(context.Background(), session, Settings{}); err == nil {
		t.Fatal("a closed session")
	}
	if _, err := New(context.Background(), nil, Settings{}); err == nil {
		t.Fatal("no session")
	}
	g := start(t, open(t, keeps), Settings{})
	g.Close()
	g.Close()
	if _, _, err := g.Step(context.Background()); err == nil {
		t.Fatal("a closed generator")
	}
	if err := g.Prompt(context.Background(), prompt); err == nil {
		t.Fatal("a closed generator")
	}
	if _, err := g.Sequence(); err == nil {
		t.Fatal("a closed generator")
	}
	if _, err := g.State(); err == nil {
		t.Fatal("a closed generator")
	}
}
