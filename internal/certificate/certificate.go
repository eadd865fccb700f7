// Package certificate keeps a certificate and its key in step with two files, so that a server
// needs no restart for a new certificate.
//
// The files are compared by their content: a tool may keep the times of a file, and a mounted
// secret is replaced as a whole by another folder. A pair is taken when both files are there and
// the key belongs to the certificate; until then the one before is used.
package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Interval is the time between two looks at the files of a [Pair].
const Interval = 5 * time.Second

// Pair is a certificate chain and its private key in two files. It is safe for concurrent use.
type Pair struct {
	certFile, keyFile string
	now               func() time.Time
	current           atomic.Pointer[tls.Certificate]
	taken, failed     atomic.Int64

	mu     sync.Mutex
	seen   content   // of the pair in use
	broken *content  // of files that could not be used at the last look, nil for none
	told   bool      // the log has said so
	warned time.Time // when the log last named the expiry
}

// content is the content of both files.
type content struct{ cert, key []byte }

func (c content) equal(d content) bool {
	return bytes.Equal(c.cert, d.cert) && bytes.Equal(c.key, d.key)
}

// Load reads a certificate chain and its key, both in PEM. An error names the files.
func Load(certFile, keyFile string) (*Pair, error) {
	p := &Pair{certFile: certFile, keyFile: keyFile, now: time.Now}
	files, err := p.read()
	if err != nil {
		return nil, p.named(err)
	}
	if err := p.take(files); err != nil {
		return nil, p.named(err)
	}
	return p, nil
}

func (p *Pair) named(err error) error {
	return fmt.Errorf("tls-cert %s, tls-key %s: %w", p.certFile, p.keyFile, err)
}

func (p *Pair) read() (c content, err error) {
	if c.cert, err = os.ReadFile(p.certFile); err != nil {
		return content{}, err
	}
	c.key, err = os.ReadFile(p.keyFile)
	return c, err
}

// isPipe reports whether a name is that of a pipe. It has its content once, and opening it again would
// wait until somebody writes to it.
func isPipe(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode()&fs.ModeNamedPipe != 0
}

// take uses the pair in files if the key belongs to the certificate.
func (p *Pair) take(files content) error {
	pair, err := tls.X509KeyPair(files.cert, files.key)
	if err != nil {
		return err
	}
	p.seen, p.broken, p.told, p.warned = files, nil, false, time.Time{}
	p.current.Store(&pair)
	p.taken.Add(1)
	return nil
}

// Config returns the settings of a server that presents the pair. A connection keeps the
// certificate with which it began.
func (p *Pair) Config() *tls.Config {
	return Settings(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current.Load(), nil })
}

// Run looks at the files every [Interval] until ctx ends.
func (p *Pair) Run(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		p.Look(log)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Look takes the pair in the files if they have changed. Files that cannot be used leave the pair
// in use as it is; the log says so once, and not before they were the same at two looks, because a
// tool that writes one file after the other is not at fault. An end of the certificate that is
// near is logged once a day. Pipes are not read again.
func (p *Pair) Look(log *slog.Logger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isPipe(p.certFile) || isPipe(p.keyFile) {
		p.warn(log)
		return
	}
	files, err := p.read()
	if err == nil && files.equal(p.seen) {
		p.broken, p.told = nil, false
		p.warn(log)
		return
	}
	if err == nil {
		err = p.take(files)
	}
	if err != nil {
		p.failed.Add(1)
		p.complain(log, files, err)
		p.warn(log)
		return
	}
	log.Info("the certificate has changed, and new connections get it", "tls-cert", p.certFile, "until", p.Expires().UTC().Format(time.RFC3339))
	p.warn(log)
}

// complain logs at the second look at the same files that they cannot be used.
func (p *Pair) complain(log *slog.Logger, files content, err error) {
	if p.broken == nil || !files.equal(*p.broken) {
		p.broken, p.told = &files, false
		return
	}
	if p.told {
		return
	}
	p.told = true
	log.Warn("the files of the certificate cannot be used, so the one before goes on being used", "error", p.named(err))
}

// warn logs once a day that the certificate ends soon or has ended.
func (p *Pair) warn(log *slog.Logger) {
	leaf, now := p.current.Load().Leaf, p.now()
	if !EndsSoon(leaf, now) || now.Sub(p.warned) < 24*time.Hour {
		return
	}
	p.warned = now
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	if !now.Before(leaf.NotAfter) {
		log.Error("the certificate has expired: clients refuse to connect until tls-cert and tls-key are replaced", "tls-cert", p.certFile, "until", until)
		return
	}
	log.Warn("the certificate ends soon: replace tls-cert and tls-key", "tls-cert", p.certFile, "until", until)
}

// Expires returns the end of the certificate in use.
func (p *Pair) Expires() time.Time { return p.current.Load().Leaf.NotAfter }

// Loads returns how many pairs were taken, the first among them, and how many looks found files
// that could not be used.
func (p *Pair) Loads() (taken, failed int64) { return p.taken.Load(), p.failed.Load() }
