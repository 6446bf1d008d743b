// SPDX-License-Identifier: Apache-2.0

package quarry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Detail is a key ("node", "op", "reason" ...) and its value.
type Detail struct{ Key, Value string }

// Error is why a call failed: every error of this package is one. errors.Is finds in it what Go calls the same: fs.ErrNotExist, fs.ErrPermission,
// errors.ErrUnsupported, context.DeadlineExceeded; and context.Canceled where a context ended the call.
type Error struct {
	Code    Code
	ID      string // "QR-C0107"; docs/errors.md has a section for each. Empty for what this package refuses itself
	Message string // what was found, what was expected
	Hint    string // what to do about it; may be empty
	Details []Detail
	cause   error
}

func (e *Error) Error() string {
	prefix := e.ID
	if prefix == "" {
		prefix = "quarry"
	}
	text := prefix + ": "
	for _, detail := range e.Details {
		if detail.Key == "file" && !strings.Contains(e.Message, filepath.Base(detail.Value)) {
			text += detail.Value + ": "
		}
	}
	text += e.Message + e.reasons()
	if e.Hint != "" {
		text += " (hint: " + e.Hint + ")"
	}
	return text
}

// reasons are each once, with how often it was found.
func (e *Error) reasons() string {
	var found []string
	times := map[string]int{}
	for _, detail := range e.Details {
		if detail.Key != "reason" {
			continue
		}
		if !slices.Contains(found, detail.Value) {
			found = append(found, detail.Value)
		}
		times[detail.Value]++
	}
	text := ""
	for _, reason := range found {
		text += "; " + reason
		if times[reason] > 1 {
			text += fmt.Sprintf(" (%d times)", times[reason])
		}
	}
	return text
}

func (e *Error) Unwrap() error { return e.cause }

// Is gives errors.Is what Go calls the same.
func (e *Error) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.ID == "QR-F0001"
	case fs.ErrPermission:
		return e.Code == PermissionDenied
	case errors.ErrUnsupported:
		return e.Code == Unsupported
	case context.DeadlineExceeded, os.ErrDeadlineExceeded:
		return e.Code == DeadlineExceeded
	}
	return false
}

// refused is what the package refuses before the library is asked.
func refused(format string, values ...any) *Error {
	return &Error{Code: InvalidArgument, Message: fmt.Sprintf(format, values...)}
}

// What hints of the library call by the names of C.
var goNames = map[string]string{
	"qr_memory_allocate": "AllocateMemory", "qr_memory_map": "Memory.Access", "qr_memory_unmap": "its end",
	"qr_model_check": "Model.Check", "qr_session_abort": "Run.Abort", "qr_session_clone": "Session.Clone", "qr_session_create": "Model.NewSession",
	"qr_session_recover": "Session.Recover", "qr_session_run": "Session.Run", "qr_session_submit": "Session.Submit", "qr_quantizer_write": "Quantizer.Write", "qr_quantize_option_at": "quantize.Options", "qr_signal_reset": "another context",
}

var nameOfC = regexp.MustCompile(`qr_\w+`)

// inGo is a hint by the names that a program in Go has.
func inGo(hint string) string {
	return nameOfC.ReplaceAllStringFunc(hint, func(name string) string {
		if found, ok := goNames[name]; ok {
			return found
		}
		return name
	})
}
