package passwords

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
)

// WorkerArgument is the one argument of a program that is to check passwords for another
// process of the same program, and nothing else: its main function calls [RunWorker] then.
const WorkerArgument = "check-passwords"

// RunWorker answers questions on standard input until it ends, and returns the exit status. The
// process is the last one to get a processor, and has one at most. It does not listen to the
// signals that end a service: whoever asks it ends it by closing its input, after the last answer.
func RunWorker() int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(10) // the memory of one check is free before the next one
	yieldToOthers()
	if err := answer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A question is a hash and a password, each behind its length in two bytes, the high one
// first. An answer is one byte.
const (
	wrong = 'n'
	right = 'y'
)

// answer answers questions until there are no more.
func answer(questions io.Reader, answers io.Writer) error {
	in := bufio.NewReader(questions)
	for {
		hash, password, err := readQuestion(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("passwords: half a question: %w", err)
		}
		said := byte(wrong)
		if Check(hash, password) {
			said = right
		}
		if _, err := answers.Write([]byte{said}); err != nil {
			return fmt.Errorf("passwords: answer: %w", err)
		}
	}
}

// readQuestion returns io.EOF where no question begins.
func readQuestion(in io.Reader) (hash, password string, err error) {
	if hash, err = readText(in); err != nil {
		return "", "", err
	}
	if password, err = readText(in); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return hash, password, err
}

func readText(in io.Reader) (string, error) {
	var length [2]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return "", err
	}
	text := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(in, text); errors.Is(err, io.EOF) {
		return "", io.ErrUnexpectedEOF
	} else if err != nil {
		return "", err
	}
	return string(text), nil
}

// question returns the bytes that ask about a password. Both texts are short.
func question(hash, password string) []byte {
	var asked []byte
	for _, text := range []string{hash, password} {
		asked = binary.BigEndian.AppendUint16(asked, uint16(len(text)))
		asked = append(asked, text...)
	}
	return asked
}
