// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"strings"
	"unsafe"
)

// State is what a session keeps from run to run (option "state"): Session.State, or a fork of one. It may outlive the session.
// A session runs one state at a time; SetState has it go on from another, of a beam or of another conversation.
type State struct {
	object[*C.qr_state]
}

// StateTensor is a pair of input and output that a session keeps; see qr_state_info.
type StateTensor struct {
	Input, Output string
	Axis          int // along which it grows; -1: it keeps its size
	DType         DType
	Shape         []int  // now; -1: the next run says
	Capacity      uint64 // entries along the axis that there is room for; 0: it keeps its size
	Bytes         uint64 // of memory that is held
}

// State is what the next run goes on from. An error where the session keeps none.
func (s *Session) State() (*State, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var pointer *C.qr_state
	if err := check(C.qr_session_state(s.pointer, &pointer)); err != nil {
		return nil, err
	}
	return newState(s.core, pointer), nil
}

// SetState has runs go on from another state, of this session or of a clone of it.
func (s *Session) SetState(state *State) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if state == nil {
		return check(C.qr_session_set_state(s.pointer, nil))
	}
	state.mutex.Lock()
	defer state.mutex.Unlock()
	return check(C.qr_session_set_state(s.pointer, state.pointer))
}

func newState(core *core, pointer *C.qr_state) *State {
	made := new(State)
	made.own(pointer, core, func(pointer *C.qr_state) { C.qr_state_destroy(pointer) })
	return made
}

// Tensors are the pairs, in the order of the model's inputs.
func (s *State) Tensors() ([]StateTensor, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.tensors()
}

func (s *State) tensors() ([]StateTensor, error) {
	count := C.qr_state_count(s.pointer)
	found := make([]StateTensor, 0, count)
	for index := C.uint64_t(0); index < count; index++ {
		info := C.qr_state_info{struct_size: C.sizeof_qr_state_info}
		if err := check(C.qr_state_tensor(s.pointer, index, &info)); err != nil {
			return nil, err
		}
		shape := make([]int, info.rank)
		for axis := range shape {
			shape[axis] = int(info.dims[axis])
		}
		found = append(found, StateTensor{goString(info.input), goString(info.output), int(info.axis), DType(info.dtype), shape, uint64(info.capacity),
			uint64(info.bytes)})
	}
	return found, nil
}

// Length is how many entries the pairs that grow have: the tokens so far, of a decoder. 0 where none grows.
func (s *State) Length() (uint64, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var length C.uint64_t
	err := check(C.qr_state_length(s.pointer, &length))
	return uint64(length), err
}

// Dropped is how many entries the option "state.window" has dropped: the next token's position is this and the length.
func (s *State) Dropped() (uint64, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var dropped C.uint64_t
	err := check(C.qr_state_dropped(s.pointer, &dropped))
	return uint64(dropped), err
}

// Reset empties it: no entries, and zeros.
func (s *State) Reset() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return check(C.qr_state_reset(s.pointer))
}

// Rewind forgets the entries from length on.
func (s *State) Rewind(length uint64) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return check(C.qr_state_rewind(s.pointer, C.uint64_t(length)))
}

// Fork is a copy, which goes on by itself.
func (s *State) Fork() (*State, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var pointer *C.qr_state
	if err := check(C.qr_state_fork(s.pointer, &pointer)); err != nil {
		return nil, err
	}
	return newState(s.core, pointer), nil
}

// Save writes it for Load.
func (s *State) Save(ctx context.Context, target Target) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pointer == nil {
		return check(C.qr_state_save(nil, nil, nil))
	}
	return target.with(func(to *C.qr_target) error {
		return called(ctx, s.core.pointer, func(call *C.qr_call_options) *C.qr_status { return C.qr_state_save(s.pointer, to, call) })
	})
}

// Load makes it what was saved, by a session of the same model. On failure nothing has changed.
func (s *State) Load(saved []byte) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var lent lent
	defer lent.release()
	return check(C.qr_state_load(s.pointer, pinned(saved, &lent.pinner), C.uint64_t(len(saved))))
}

// Read is a copy of one pair's values: that of an input, or of an output.
func (s *State) Read(name string) (Tensor, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var made Tensor
	index, err := s.place(name)
	if err != nil {
		return made, err
	}
	c := C.qr_tensor{struct_size: C.sizeof_qr_tensor}
	if err := check(C.qr_state_read(s.pointer, index, &c)); err != nil {
		return made, err
	}
	words := make([]uint64, (int(c.size_bytes)+7)/8+1)
	made.Bytes = unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), int(c.size_bytes))
	var lent lent
	defer lent.release()
	c.data = pinned(made.Bytes, &lent.pinner)
	if err := check(C.qr_state_read(s.pointer, index, &c)); err != nil {
		return Tensor{}, err
	}
	made.take(&c)
	return made, nil
}

// Write replaces one pair's values. One that grows may get another length.
func (s *State) Write(name string, values Tensor) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	index, err := s.place(name)
	if err != nil {
		return err
	}
	var lent lent
	defer lent.release()
	c := C.qr_tensor{struct_size: C.sizeof_qr_tensor}
	if err := setInput(&c, name, &values, &lent); err != nil {
		return err
	}
	return check(C.qr_state_write(s.pointer, index, &c))
}

func (s *State) place(name string) (C.uint64_t, error) {
	tensors, err := s.tensors()
	if err != nil {
		return 0, err
	}
	known := make([]string, 0, len(tensors))
	for index, pair := range tensors {
		if pair.Input == name || pair.Output == name {
			return C.uint64_t(index), nil
		}
		known = append(known, "'"+pair.Input+"'")
	}
	if s.pointer == nil {
		return 0, check(C.qr_state_length(nil, nil)) // the library's words for a closed one
	}
	return 0, refused("found no pair '%s' in the state, expected one of %s", name, strings.Join(known, ", "))
}
