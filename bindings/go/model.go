// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"unsafe"
)

// Model is an opened .onnx or .qrm: immutable, for any number of goroutines and sessions.
type Model struct {
	object[*C.qr_model]
}

// Source is where a model is read from: a path, else a file or a part of one, else a reader.
type Source struct {
	Path   string
	File   *os.File    // from Offset on, Size bytes of it; Size 0: to its end
	Reader io.ReaderAt // of Size bytes: bytes.NewReader for a model in memory. It is read once, within the call
	Offset int64
	Size   int64
	Folder *os.File // with the external data of an .onnx; nil: with Path the folder of the file, else there is none
	// External data of an .onnx by name, in place of a folder: a file and its size, or an error that is fs.ErrNotExist where there is none. All is
	// asked and read within the call.
	External func(name string) (io.ReaderAt, int64, error)
}

// OpenModel opens a file.
func OpenModel(r *Runtime, path string, options Options) (*Model, error) {
	return OpenModelFrom(context.Background(), r, Source{Path: path}, options)
}

// OpenModelFrom opens a model from anywhere. An error of the source's reader is found in the call's by errors.Is and errors.As.
func OpenModelFrom(ctx context.Context, r *Runtime, source Source, options Options) (*Model, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	c, err := options.make(r.get())
	if err != nil {
		return nil, err
	}
	defer C.qr_options_destroy(c)
	var pointer *C.qr_model
	err = source.with(func(from *C.qr_model_source) error {
		return called(ctx, r.get(), func(call *C.qr_call_options) *C.qr_status { return C.qr_model_open(r.get(), from, c, call, &pointer) })
	})
	if err != nil {
		C.qr_model_destroy(pointer)
		return nil, err
	}
	made := new(Model)
	made.own(pointer, r.core, func(pointer *C.qr_model) { C.qr_model_destroy(pointer) })
	return made, nil
}

// with has a call read from there, and gives its error with that of the reader in it.
func (source Source) with(call func(*C.qr_model_source) error) error {
	from := (*C.qr_model_source)(C.calloc(1, C.sizeof_qr_model_source))
	defer C.free(unsafe.Pointer(from))
	from.struct_size, from.fd, from.folder_fd = C.sizeof_qr_model_source, -1, -1
	from.offset, from.size_bytes = C.uint64_t(source.Offset), C.uint64_t(source.Size)
	reading := &reading{from: source.Reader, external: source.External}
	switch {
	case source.Path == "" && source.File != nil:
		from.kind, from.fd = C.QR_SOURCE_DESCRIPTOR, C.int32_t(source.File.Fd())
	case source.Path == "" && source.Reader != nil:
		from.kind = C.QR_SOURCE_READER
	default:
		from.kind = C.QR_SOURCE_PATH
		var free func()
		from.path, free = copyOf(source.Path)
		defer free()
	}
	defer reading.lend(from)()
	if source.Folder != nil {
		from.folder_fd = C.int32_t(source.Folder.Fd())
	}
	err := call(from)
	runtime.KeepAlive(source) // its files, whose finalizers close them
	return reading.outcome(err)
}

// closed is what calls on a closed model give: the library's words.
func (m *Model) closed() error {
	if m.pointer == nil {
		return check(C.qr_model_verify(nil, nil))
	}
	return nil
}

// with calls work with the library's options, while the model is open.
func (m *Model) with(options Options, work func(*C.qr_options) error) error {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	if err := m.closed(); err != nil {
		return err
	}
	c, err := options.make(m.core.pointer)
	if err != nil {
		return err
	}
	defer C.qr_options_destroy(c)
	return work(c)
}

// Inspect gives everything the model says of itself, as JSON.
func (m *Model) Inspect() (string, error) { return m.InspectContext(context.Background()) }

// InspectContext is Inspect that a context's end stops.
func (m *Model) InspectContext(ctx context.Context) (string, error) {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	if err := m.closed(); err != nil {
		return "", err
	}
	var text *C.char
	if err := called(ctx, m.core.pointer, func(call *C.qr_call_options) *C.qr_status { return C.qr_model_inspect(m.pointer, call, &text) }); err != nil {
		return "", err
	}
	return takeText(text), nil
}

// Verify reads every byte of a .qrm and checks all sums.
func (m *Model) Verify(ctx context.Context) error {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	if err := m.closed(); err != nil {
		return err
	}
	return called(ctx, m.core.pointer, func(call *C.qr_call_options) *C.qr_status { return C.qr_model_verify(m.pointer, call) })
}

// Compatibility is how well a container fits a backend of this machine.
type Compatibility int32

// The grades of model.h.
const (
	Optimal         Compatibility = C.QR_COMPATIBILITY_OPTIMAL
	Usable          Compatibility = C.QR_COMPATIBILITY_USABLE       // another compilation would be better
	Recompile       Compatibility = C.QR_COMPATIBILITY_RECOMPILE    // does not run; the kept graph can be compiled again
	NoCompatibility Compatibility = C.QR_COMPATIBILITY_INCOMPATIBLE // does not run, and there is no graph
)

// Compatibility grades a container's context for the backend that the option "backend" names, and says why.
func (m *Model) Compatibility(ctx context.Context, options Options) (grade Compatibility, reason string, err error) {
	var found C.qr_compatibility
	var text *C.char
	err = m.with(options, func(c *C.qr_options) error {
		return called(ctx, m.core.pointer, func(call *C.qr_call_options) *C.qr_status {
			return C.qr_model_compatibility(m.pointer, c, call, &found, &text)
		})
	})
	if err != nil {
		return 0, "", err
	}
	return Compatibility(found), takeText(text), nil
}

// Properties are the keys and values that the model carries: ONNX's metadata_props, "metadata.<key>" of a container.
func (m *Model) Properties() (map[string]string, error) {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	found := map[string]string{}
	for i := C.uint64_t(0); i < C.qr_model_property_count(m.pointer); i++ {
		var key, value C.qr_string
		if err := check(C.qr_model_property(m.pointer, i, &key, &value)); err != nil {
			return nil, err
		}
		found[goString(key)] = goString(value)
	}
	return found, nil
}

// Inputs says what the model takes, with the names of symbolic dimensions.
func (m *Model) Inputs() ([]TensorInfo, error) {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	return m.infos(C.qr_model_input_count(m.pointer),
		func(i C.uint64_t, info *C.qr_tensor_info) *C.qr_status { return C.qr_model_input(m.pointer, i, info) },
		func(i, axis C.uint64_t, name *C.qr_string) *C.qr_status {
			return C.qr_model_input_dim_name(m.pointer, i, axis, name)
		})
}

// Outputs says what it gives.
func (m *Model) Outputs() ([]TensorInfo, error) {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	return m.infos(C.qr_model_output_count(m.pointer),
		func(i C.uint64_t, info *C.qr_tensor_info) *C.qr_status { return C.qr_model_output(m.pointer, i, info) },
		func(i, axis C.uint64_t, name *C.qr_string) *C.qr_status {
			return C.qr_model_output_dim_name(m.pointer, i, axis, name)
		})
}

func (m *Model) infos(count C.uint64_t, ask func(C.uint64_t, *C.qr_tensor_info) *C.qr_status, dim func(i, axis C.uint64_t, name *C.qr_string) *C.qr_status) ([]TensorInfo, error) {
	if err := m.closed(); err != nil {
		return nil, err
	}
	found, err := infosOf(count, ask)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].DimNames = make([]string, len(found[i].Shape))
		for axis := range found[i].DimNames {
			var name C.qr_string
			if err := check(dim(C.uint64_t(i), C.uint64_t(axis), &name)); err != nil {
				return nil, err
			}
			found[i].DimNames[axis] = goString(name)
		}
	}
	return found, nil
}

// Compile writes a .qrm, which appears whole or not at all.
func (m *Model) Compile(ctx context.Context, path string, options Options) error {
	return m.CompileTo(ctx, Target{Path: path}, options)
}

// CompileTo writes a .qrm anywhere; with a name that ends in .onnx, what ONNX Runtime loads. An error of the target's writer is found in the
// call's by errors.Is and errors.As.
func (m *Model) CompileTo(ctx context.Context, target Target, options Options) error {
	return m.write(ctx, target, options, func(c *C.qr_options, to *C.qr_target, call *C.qr_call_options) *C.qr_status {
		return C.qr_model_compile(m.pointer, c, to, call)
	})
}

// ExportTo writes the graph after the passes that all backends share, for other programs: as .onnx, .onnx.data or .json, as the target's name says.
func (m *Model) ExportTo(ctx context.Context, target Target, options Options) error {
	return m.write(ctx, target, options, func(c *C.qr_options, to *C.qr_target, call *C.qr_call_options) *C.qr_status {
		return C.qr_model_export(m.pointer, c, to, call)
	})
}

func (m *Model) write(ctx context.Context, target Target, options Options, function func(*C.qr_options, *C.qr_target, *C.qr_call_options) *C.qr_status) error {
	return m.with(options, func(c *C.qr_options) error {
		return target.with(func(to *C.qr_target) error {
			return called(ctx, m.core.pointer, func(call *C.qr_call_options) *C.qr_status { return function(c, to, call) })
		})
	})
}

// QuantizationKind says for what a scale holds.
type QuantizationKind int32

// The kinds of tensor.h.
const (
	PerTensor  QuantizationKind = C.QR_QUANTIZED_PER_TENSOR
	PerChannel QuantizationKind = C.QR_QUANTIZED_PER_CHANNEL
	PerBlock   QuantizationKind = C.QR_QUANTIZED_PER_BLOCK
)

// Quantization is what a quantised value q means: (q - zero point) * scale.
type Quantization struct {
	Kind      QuantizationKind
	Scale     float64 // of the whole tensor; NaN where Scales hold
	ZeroPoint int64
	// Per channel: one for each index of Axis. Per block: laid out like the tensor, with Axis divided by BlockSize and rounded up.
	Scales     []float32
	ZeroPoints []int32
	Axis       int
	BlockSize  int
}

// TensorInfo is what is known of an input or output. A dimension is -1 where it is symbolic, or known only after a run.
type TensorInfo struct {
	Name         string
	DType        DType
	Shape        []int
	DimNames     []string      // of symbolic dimensions, from a Model; "" where a dimension has none
	Quantization *Quantization // nil: the values are what they say
}

func infoOf(info *C.qr_tensor_info) TensorInfo {
	shape := make([]int, info.rank)
	for axis := range shape {
		shape[axis] = int(info.dims[axis])
	}
	made := TensorInfo{Name: goString(info.name), DType: DType(info.dtype), Shape: shape}
	if info.is_quantized != 0 {
		made.Quantization = &Quantization{Kind: QuantizationKind(info.is_quantized), Scale: float64(info.scale), ZeroPoint: int64(info.zero_point),
			Axis: int(info.quantized_axis), BlockSize: int(info.block_size)}
		if info.scales != nil {
			made.Quantization.Scales = slices.Clone(unsafe.Slice((*float32)(unsafe.Pointer(info.scales)), info.scale_count))
		}
		if info.zero_points != nil {
			made.Quantization.ZeroPoints = slices.Clone(unsafe.Slice((*int32)(unsafe.Pointer(info.zero_points)), info.scale_count))
		}
	}
	return made
}

func infosOf(count C.uint64_t, ask func(C.uint64_t, *C.qr_tensor_info) *C.qr_status) ([]TensorInfo, error) {
	found := make([]TensorInfo, 0, count)
	for i := C.uint64_t(0); i < count; i++ {
		info := C.qr_tensor_info{struct_size: C.sizeof_qr_tensor_info}
		if err := check(ask(i, &info)); err != nil {
			return nil, err
		}
		found = append(found, infoOf(&info))
	}
	return found, nil
}

func (i TensorInfo) String() string { return fmt.Sprintf("%s %s%v", i.Name, i.DType, i.Shape) }
