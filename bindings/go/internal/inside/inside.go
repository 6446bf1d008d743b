// SPDX-License-Identifier: Apache-2.0

// Package inside is what packages beside quarry, of libraries of their own, have of its insides: quarry sets the functions, and what is `any` here is
// of a type of quarry's. Structs of C's are pointers here: each package on cgo has types of its own for them.
package inside

import (
	"context"
	"unsafe"
)

// A Core is a runtime of C's that goes on until Release.
type Core interface {
	Runtime() unsafe.Pointer // a qr_runtime
	// Called calls work with a qr_call_options of the context, and gives the qr_status that it gives as an error.
	Called(ctx context.Context, work func(call unsafe.Pointer) unsafe.Pointer) error
	Release()
}

// Ask fills a qr_tensor_info for an index, and gives a qr_status.
type Ask func(index uint64, info unsafe.Pointer) unsafe.Pointer

var (
	// Retain gives the core of a *quarry.Runtime.
	Retain func(runtime any) (Core, error)
	// Check gives a qr_status as a *quarry.Error.
	Check func(status unsafe.Pointer) error
	// WithSource calls work with a quarry.Source as a qr_model_source.
	WithSource func(source any, work func(source unsafe.Pointer) error) error
	// WithTarget calls work with a quarry.Target as a qr_target.
	WithTarget func(target any, work func(target unsafe.Pointer) error) error
	// WithInputs calls work with a []quarry.Tensor as an array of pointers to qr_tensor; infos is a []quarry.TensorInfo.
	WithInputs func(infos, tensors any, work func(places unsafe.Pointer) error) error
	// WithSession calls work with a *quarry.Session's core, which goes on until Release, and its qr_session; no other call is under way on it.
	WithSession func(session any, work func(core Core, session unsafe.Pointer) error) error
	// State gives a qr_state, which it takes, as a *quarry.State.
	State func(core Core, state unsafe.Pointer) any
	// Infos gives the []quarry.TensorInfo of so many.
	Infos func(count uint64, ask Ask) (any, error)
)
