package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"gatehouse.example/storage"
)

// readError maps the error of a command that changes nothing.
func readError(what string, err error) error {
	switch {
	case isFull(err):
		return fmt.Errorf("storage/redis: %s: %w: %w", what, storage.ErrFull, err)
	case errors.Is(err, goredis.Nil):
		return storage.ErrNotFound
	case isWrongType(err):
		return fmt.Errorf("storage/redis: %s: %w: the key holds another kind of value", what, storage.ErrRecord)
	default:
		return fmt.Errorf("storage/redis: %s: %w", what, err)
	}
}

// isWrongType looks for the code anywhere in the reply, because the embedded server puts other
// words before the error of a command in a script.
func isWrongType(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply) && strings.Contains(reply.Error(), "WRONGTYPE")
}

// writeError maps the error of a command that changes something. Unless it is certain
// that the command had no effect, the outcome is unknown.
func writeError(what string, err error) error {
	if err == nil {
		return nil
	}
	if isCertain(err) {
		return readError(what, err)
	}
	return fmt.Errorf("storage/redis: %s: %w: %w", what, storage.ErrUncertain, err)
}

// isCertain reports whether the command had no effect: the server refused it, or it
// never left this process.
func isCertain(err error) bool {
	var reply goredis.Error
	var unsent unsentError
	return errors.As(err, &reply) || errors.As(err, &unsent) ||
		errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted) ||
		errors.Is(err, goredis.ErrClosed)
}

// isReply reports whether the server answered, be it with an error or with nothing.
func isReply(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply)
}

// unsentError marks an error that happened before a command could be sent.
type unsentError struct{ error }

// Unwrap returns the error itself.
func (e unsentError) Unwrap() error { return e.error }

// certain marks err as having happened before the command could be sent.
func certain(err error) error { return unsentError{err} }

// dialHook marks the errors of a dial: no command was sent.
type dialHook struct{}

// DialHook implements goredis.Hook.
func (dialHook) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, certain(err)
		}
		return conn, nil
	}
}

// ProcessHook implements goredis.Hook.
func (dialHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

// ProcessPipelineHook implements goredis.Hook.
func (dialHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// noMaintenance turns off a handshake that only some hosted servers support. The endpoint type is
// set because the client would otherwise resolve the host to find it out, and the embedded server
// has none.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
}

// isTLSError reports whether TLS failed. A server that expects no TLS may just close the
// connection.
func isTLSError(t target, err error) bool {
	var header tls.RecordHeaderError
	var alert tls.AlertError
	var verify *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	return t.secure && errors.Is(err, io.EOF) || errors.As(err, &header) || errors.As(err, &alert) || errors.As(err, &verify) || errors.As(err, &unknown)
}
