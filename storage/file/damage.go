package file

import (
	"fmt"
	"runtime/debug"
)

// guarded runs a function that reads the file. bbolt panics where a page is not what another one
// says, and the memory that a damaged page points to may not be there: both are [ErrDamaged].
func guarded(run func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return run()
}
