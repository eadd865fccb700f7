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

// WorkerArgument is the only argument of a program that runs as a worker for another process of
// the same program. Its main function must call [RunWorker] then.
const WorkerArgument = "check-passwords"

// RunWorker checks passwords that it reads from standard input until the input ends, and returns
// the exit status. The process has a low priority and uses one processor. It ignores the signals
// that end a service: the process that uses it closes its input after the last answer.
func RunWorker() int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(10) // the memory of a check is freed before the next one
	yieldToOthers()
	if err := answer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A question is a hash and a password, each after its length in two bytes, big-endian. An answer
// is one of these bytes.
const (
	wrong = 'n'
	right = 'y'
)

// answer reads questions and writes answers until the input ends.
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
		result := byte(wrong)
		if Check(hash, password) {
			result = right
		}
		if _, err := answers.Write([]byte{result}); err != nil {
			return fmt.Errorf("passwords: answer: %w", err)
		}
	}
}

// readQuestion reads a question. The error is io.EOF if there is none.
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

// question returns the bytes of a question. Both texts must have fewer than 1<<16 bytes.
func question(hash, password string) []byte {
	var asked []byte
	for _, text := range []string{hash, password} {
		asked = binary.BigEndian.AppendUint16(asked, uint16(len(text)))
		asked = append(asked, text...)
	}
	return asked
}
