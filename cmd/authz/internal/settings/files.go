package settings

import (
	"fmt"
	"io"
	"os"
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

// ReadAtMost reads a file. One with more than most bytes is an error.
func ReadAtMost(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return data, nil
}
