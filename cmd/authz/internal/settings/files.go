package settings

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// SecretFrom returns the content of a file of at most 64 KiB without trailing line ends. An
// empty file is an error.
func SecretFrom(name string) (string, error) {
	data, err := ReadAtMost(name, 1<<16)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", name)
	}
	return text, nil
}

// ReadAtMost reads a file. One with more than most bytes is an error, and so is one that is written
// meanwhile: half of it would be of before. A pipe is read to its end; one that nobody writes to is an
// error, and not a reason to wait: a server that reads its settings again would wait for ever.
func ReadAtMost(name string, most int64) ([]byte, error) {
	f, err := openNow(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSteady(f, name, most)
}

// readSteady reads what is between two looks at a file.
func readSteady(f fs.File, name string, most int64) ([]byte, error) {
	before, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > most:
		return nil, fmt.Errorf("%s is larger than %d bytes", name, most)
	case before.Mode().IsRegular() && (before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime())):
		return nil, fmt.Errorf("%s was written while it was read: write another file, and rename it to this one", name)
	case before.Mode()&fs.ModeNamedPipe != 0 && len(data) == 0:
		return nil, fmt.Errorf("%s is a pipe that nobody writes to", name)
	}
	return data, nil
}
