// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
// #include <stdlib.h>
// void quarryGoLog(void *self, qr_log_level level, uint32_t flags, qr_string topic, qr_string message);
import "C"

import (
	"context"
	"log/slog"
	"strings"
	"unsafe"
)

// Each level of slog's as the library has it, the least important first.
var levels = []struct {
	slog slog.Level
	c    C.qr_log_level
}{{slog.LevelDebug - 4, C.QR_LOG_TRACE}, {slog.LevelDebug, C.QR_LOG_DEBUG}, {slog.LevelInfo, C.QR_LOG_INFO}, {slog.LevelWarn, C.QR_LOG_WARN}, {slog.LevelError, C.QR_LOG_ERROR}}

// with calls work with the options in C's memory.
func (o RuntimeOptions) with(work func(*C.qr_runtime_options) *C.qr_status) error {
	if len(o.BackendPath) == 0 && o.Log == nil {
		return check(work(nil))
	}
	options := (*C.qr_runtime_options)(C.calloc(1, C.sizeof_qr_runtime_options))
	defer C.free(unsafe.Pointer(options))
	options.struct_size = C.sizeof_qr_runtime_options
	path, free := copyOf(strings.Join(o.BackendPath, ":"))
	defer free()
	options.backend_path = path
	if o.Log != nil {
		sink := (*C.qr_log_sink)(C.calloc(1, C.sizeof_qr_log_sink))
		defer C.free(unsafe.Pointer(sink)) // the library copies it
		sink.struct_size, sink.level, sink.write = C.sizeof_qr_log_sink, C.QR_LOG_ERROR, (*[0]byte)(C.quarryGoLog)
		for _, level := range levels {
			if o.Log.Enabled(context.Background(), level.slog) {
				sink.level = level.c
				break
			}
		}
		sink.self, _ = ownedBy(o.Log) // for as long as the process: models and sessions go on logging when their runtime is gone
		options.log = sink
	}
	return check(work(options))
}

//export quarryGoLog
func quarryGoLog(self unsafe.Pointer, level C.qr_log_level, flags C.uint32_t, topic, message C.qr_string) {
	defer func() { _ = recover() }() // a handler's panic must not go through the library, and is no business of the call that wrote the line
	attributes := []slog.Attr{slog.String("topic", goString(topic))}
	if flags&C.QR_LOG_CALLER_MISBEHAVES != 0 {
		attributes = append(attributes, slog.String("misbehaves", "caller"))
	} else if flags&C.QR_LOG_PLUGIN_MISBEHAVES != 0 {
		attributes = append(attributes, slog.String("misbehaves", "plugin"))
	}
	as := slog.LevelWarn
	for _, known := range levels {
		if known.c == level {
			as = known.slog
		}
	}
	ownerOf[*slog.Logger](self).LogAttrs(context.Background(), as, goString(message), attributes...)
}
