//go:build bglm_extension

package capi

// typedef void *duckdb_ptr;
import "C"
import (
	"fmt"
	"unsafe"
)

// OnLoad is called with a connection to each database that loads the extension. An init function
// must set it, before the library is initialised.
var OnLoad func(con unsafe.Pointer) error

//export bglmGoLoad
func bglmGoLoad(con unsafe.Pointer) (msg *C.char) {
	defer func() {
		if r := recover(); r != nil {
			msg = C.CString(fmt.Sprint("bglm: internal error while loading: ", r))
		}
	}()
	if OnLoad == nil {
		return C.CString("bglm: nothing to load")
	}
	if err := OnLoad(con); err != nil {
		return C.CString("bglm: " + err.Error())
	}
	return nil
}

// linkFor does nothing: the loader has filled the table.
func linkFor() error { return nil }
