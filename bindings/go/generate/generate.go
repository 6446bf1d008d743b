// SPDX-License-Identifier: Apache-2.0

// Package generate makes tokens of a session that is a language model (docs/guide.md, "Text generation").
//
//	session, err := quarry.Open("model.onnx", quarry.Options{"state": "auto"})
//	generator, err := generate.New(ctx, session, generate.Settings{MaxNewTokens: 100, StopTokens: []int64{2}})
//	err = generator.Prompt(ctx, tokens)
//	count, end, err := generator.Run(ctx, func(token int64) bool { return show(token) })
//
// It needs libquarry-generate beside libquarry, which programs that do not import it need not have.
package generate

// #cgo pkg-config: quarry-generate
// #include <quarry/generate.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"quarry.dev/quarry"
	"quarry.dev/quarry/internal/inside"
)

// Settings say how tokens are picked and when they end. Zeros: the most probable token, until the state is full.
type Settings struct {
	Temperature       float32 // logits are divided by it; 0: the largest is taken, and none is drawn
	TopP, MinP        float32
	RepetitionPenalty float32
	TopK              uint32
	RepetitionWindow  uint64 // of how many of the last tokens; 0: of all
	Seed              uint64
	StopTokens        []int64
	MaxNewTokens      uint64 // of a Run; 0: until something else ends it
	PromptChunk       uint64 // so many tokens of a prompt are one run; 0: 256
	Names             string // where the model's names are others: "input_ids=tokens,logits=scores"
}

// End is why tokens end.
type End int32

// The reasons; Aborted and Deadline are the context's end, and no errors.
const (
	None      End = C.QR_END_NONE
	StopToken End = C.QR_END_STOP_TOKEN
	Length    End = C.QR_END_LENGTH
	Capacity  End = C.QR_END_CAPACITY
	Callback  End = C.QR_END_CALLBACK
	Aborted   End = C.QR_END_ABORTED
	Deadline  End = C.QR_END_DEADLINE
)

// Sequence is what a generator has.
type Sequence struct {
	Tokens     []int64
	Run        uint64 // of them, those that the state has
	Reused     uint64 // of the last prompt, those that were not run again
	Capacity   uint64 // so many tokens have room; 0: no end is known
	Vocabulary uint64
}

// Generator makes tokens on a clone of a session, with which it shares weights. Calls of several goroutines take turns.
type Generator struct {
	mutex   sync.Mutex
	owned   owned // its pointer is nil once closed
	cleanup runtime.Cleanup
	most    uint64
}

// owned is what it takes to free one.
type owned struct {
	pointer *C.qr_generator
	core    inside.Core
}

func (o owned) destroy() {
	C.qr_generator_destroy(o.pointer)
	o.core.Release()
}

// New makes a generator of a session with the option "state"; one without is given all tokens in each run.
func New(ctx context.Context, session *quarry.Session, settings Settings) (*Generator, error) {
	var made *Generator
	err := inside.WithSession(session, func(core inside.Core, from unsafe.Pointer) error {
		sampler := (*C.qr_sampler_options)(C.calloc(1, C.sizeof_qr_sampler_options))
		options := (*C.qr_generator_options)(C.calloc(1, C.sizeof_qr_generator_options))
		stops := (*C.int64_t)(C.calloc(C.size_t(len(settings.StopTokens)+1), 8))
		names := C.CString(settings.Names)
		defer func() {
			C.free(unsafe.Pointer(sampler))
			C.free(unsafe.Pointer(options))
			C.free(unsafe.Pointer(stops))
			C.free(unsafe.Pointer(names))
		}()
		sampler.struct_size, sampler.top_k = C.sizeof_qr_sampler_options, C.uint32_t(settings.TopK)
		sampler.temperature, sampler.top_p, sampler.min_p = C.float(settings.Temperature), C.float(settings.TopP), C.float(settings.MinP)
		sampler.repetition_penalty, sampler.repetition_window = C.float(settings.RepetitionPenalty), C.uint64_t(settings.RepetitionWindow)
		sampler.seed = C.uint64_t(settings.Seed)
		for i, token := range settings.StopTokens {
			unsafe.Slice(stops, len(settings.StopTokens))[i] = C.int64_t(token)
		}
		options.struct_size, options.sampler = C.sizeof_qr_generator_options, sampler
		options.stop_tokens, options.stop_token_count = stops, C.uint64_t(len(settings.StopTokens))
		options.prompt_chunk = C.uint64_t(settings.PromptChunk)
		options.names = C.qr_string{data: names, size: C.uint64_t(len(settings.Names))}
		var pointer *C.qr_generator
		err := core.Called(ctx, func(call unsafe.Pointer) unsafe.Pointer {
			return unsafe.Pointer(C.qr_generator_create((*C.qr_session)(from), options, (*C.qr_call_options)(call), &pointer))
		})
		if err != nil {
			core.Release()
			return err
		}
		made = &Generator{owned: owned{pointer, core}, most: settings.MaxNewTokens}
		made.cleanup = runtime.AddCleanup(made, owned.destroy, made.owned)
		return nil
	})
	return made, err
}

// Close frees the generator, after a call that is under way. It may be called again.
func (g *Generator) Close() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.owned.pointer != nil {
		g.cleanup.Stop()
		g.owned.destroy()
		g.owned.pointer = nil
	}
}

// Prompt makes the sequence these tokens: all of it, what was generated before included. What begins as the sequence before it did is not run again.
func (g *Generator) Prompt(ctx context.Context, tokens []int64) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.called(ctx, func(run *C.qr_run_options) *C.qr_status {
		return C.qr_generator_prompt(g.owned.pointer, place(tokens), C.uint64_t(len(tokens)), run)
	})
}

// Step picks one token and puts it behind the sequence: -1 with the reason Capacity.
func (g *Generator) Step(ctx context.Context) (int64, End, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.step(ctx)
}

func (g *Generator) step(ctx context.Context) (int64, End, error) {
	var token C.int64_t
	var end C.qr_end_reason
	err := g.called(ctx, func(run *C.qr_run_options) *C.qr_status {
		return C.qr_generator_step(g.owned.pointer, run, &token, &end)
	})
	return int64(token), End(end), err
}

// Run picks tokens until there is a reason to end, and gives how many there were. show gets each but a stop token, and ends the run with false; it may be nil.
func (g *Generator) Run(ctx context.Context, show func(token int64) bool) (uint64, End, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for count := uint64(0); ; {
		if g.most > 0 && count == g.most {
			return count, Length, nil
		}
		token, end, err := g.step(ctx)
		var failed *quarry.Error
		if errors.As(err, &failed) && failed.Code == quarry.Cancelled {
			return count, Aborted, nil
		}
		if failed != nil && failed.Code == quarry.DeadlineExceeded {
			return count, Deadline, nil
		}
		if err != nil || end == Capacity {
			return count, end, err
		}
		count++
		if end != None {
			return count, end, nil
		}
		if show != nil && !show(token) {
			return count, Callback, nil
		}
	}
}

// Logits are those of the next token, for a choice of the program's own: a copy. Accept goes on with what was chosen.
func (g *Generator) Logits(ctx context.Context) ([]float32, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	var logits *C.float
	var count C.uint64_t
	err := g.called(ctx, func(run *C.qr_run_options) *C.qr_status {
		return C.qr_generator_logits(g.owned.pointer, run, &logits, &count)
	})
	if err != nil {
		return nil, err
	}
	return append([]float32(nil), unsafe.Slice((*float32)(unsafe.Pointer(logits)), int(count))...), nil
}

// Accept puts a token behind the sequence, as Step does with the one that it picks.
func (g *Generator) Accept(token int64) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return check(C.qr_generator_accept(g.owned.pointer, C.int64_t(token)))
}

// Rewind forgets the tokens from length on; 0: all, and the seed begins again.
func (g *Generator) Rewind(length uint64) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return check(C.qr_generator_rewind(g.owned.pointer, C.uint64_t(length)))
}

// Sequence is what there is so far.
func (g *Generator) Sequence() (Sequence, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	info := C.qr_sequence_info{struct_size: C.sizeof_qr_sequence_info}
	if err := check(C.qr_generator_sequence(g.owned.pointer, &info)); err != nil {
		return Sequence{}, err
	}
	tokens := append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(info.tokens)), int(info.count))...)
	return Sequence{tokens, uint64(info.run), uint64(info.reused), uint64(info.capacity), uint64(info.vocabulary)}, nil
}

// State is what the generator's session keeps: to save it, or to ask for its size. After its Load, call Restore.
func (g *Generator) State() (*quarry.State, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	var pointer *C.qr_state
	if err := check(C.qr_generator_state(g.owned.pointer, &pointer)); err != nil {
		return nil, err
	}
	return inside.State(g.owned.core, unsafe.Pointer(pointer)).(*quarry.State), nil
}

// Restore says which tokens a state that was loaded has: the first Run of the sequence when it was saved.
func (g *Generator) Restore(tokens []int64) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return check(C.qr_generator_restore(g.owned.pointer, place(tokens), C.uint64_t(len(tokens))))
}

// called calls work with options of a run that a context's end stops. What a closed generator is, the library says.
func (g *Generator) called(ctx context.Context, work func(*C.qr_run_options) *C.qr_status) error {
	if g.owned.pointer == nil {
		return check(work(nil))
	}
	return g.owned.core.Called(ctx, func(call unsafe.Pointer) unsafe.Pointer {
		run := (*C.qr_run_options)(C.calloc(1, C.sizeof_qr_run_options))
		defer C.free(unsafe.Pointer(run))
		run.struct_size, run.signal = C.sizeof_qr_run_options, (*C.qr_call_options)(call).signal
		return unsafe.Pointer(work(run))
	})
}

func place(tokens []int64) *C.int64_t { return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(tokens))) }

func check(status *C.qr_status) error { return inside.Check(unsafe.Pointer(status)) }
