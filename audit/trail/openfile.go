package trail

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// openTrail opens a file to read it; one whose name ends with ".gz" was compressed after its rotation.
func openTrail(path string) (io.ReadCloser, error) {
	file, err := openToRead(path)
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return file, err
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "read", Path: path, Err: err}, file.Close())
	}
	return compressed{unpacked, file}, nil
}

// openToRead opens a file to read it, and no folder, of which a read would only fail.
func openToRead(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		_ = file.Close()
		return nil, fmt.Errorf("%s is a folder: name the files in it", path)
	}
	return file, nil
}

type compressed struct {
	*gzip.Reader
	file *os.File
}

// Close implements [io.Closer].
func (c compressed) Close() error { return errors.Join(c.Reader.Close(), c.file.Close()) }
