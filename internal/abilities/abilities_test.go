package abilities

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// plain is a ResponseWriter without any ability.
type plain struct {
	header  http.Header
	written strings.Builder
	used    []string
}

func (p *plain) Header() http.Header         { return p.header }
func (p *plain) WriteHeader(int)             {}
func (p *plain) Write(b []byte) (int, error) { return p.written.Write(b) }

type flushing struct{ p *plain }

func (f flushing) Flush() { f.p.used = append(f.p.used, "flush") }

type reading struct{ p *plain }

func (r reading) ReadFrom(src io.Reader) (int64, error) {
	r.p.used = append(r.p.used, "read")
	return io.Copy(&r.p.written, src)
}

type hijacking struct{ p *plain }

func (h hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.p.used = append(h.p.used, "hijack")
	return nil, nil, nil
}

type timing struct{ p *plain }

func (d timing) SetReadDeadline(time.Time) error  { d.p.used = append(d.p.used, "read"); return nil }
func (d timing) SetWriteDeadline(time.Time) error { d.p.used = append(d.p.used, "write"); return nil }
func (d timing) EnableFullDuplex() error          { d.p.used = append(d.p.used, "duplex"); return nil }

// wrapped is a writer of somebody who knows Unwrap only.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// layer forwards everything.
type layer struct {
	http.ResponseWriter
	Writer
}

func (l *layer) Header() http.Header         { return l.ResponseWriter.Header() }
func (l *layer) WriteHeader(status int)      { l.ResponseWriter.WriteHeader(status) }
func (l *layer) Write(b []byte) (int, error) { return l.ResponseWriter.Write(b) }
func (l *layer) FlushError() error           { return http.NewResponseController(l.ResponseWriter).Flush() }
func (l *layer) CopyFrom(src io.Reader) (int64, error) {
	return l.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}
func (l *layer) TakeOver() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(l.ResponseWriter).Hijack()
}

// around puts a layer around a writer.
func around(w http.ResponseWriter, hijack bool) http.ResponseWriter {
	l := &layer{ResponseWriter: w}
	return l.Around(l, w, hijack)
}

// writers returns a writer for each set of abilities: the bits are flush, read, hijack.
func writers() (all [8]http.ResponseWriter, of [8]*plain) {
	for i := range of {
		of[i] = &plain{header: http.Header{}}
	}
	p := func(i int) *plain { return of[i] }
	all = [8]http.ResponseWriter{
		p(0),
		struct {
			*plain
			flushing
		}{p(1), flushing{p(1)}},
		struct {
			*plain
			reading
		}{p(2), reading{p(2)}},
		struct {
			*plain
			flushing
			reading
		}{p(3), flushing{p(3)}, reading{p(3)}},
		struct {
			*plain
			hijacking
		}{p(4), hijacking{p(4)}},
		struct {
			*plain
			flushing
			hijacking
		}{p(5), flushing{p(5)}, hijacking{p(5)}},
		struct {
			*plain
			reading
			hijacking
		}{p(6), reading{p(6)}, hijacking{p(6)}},
		struct {
			*plain
			flushing
			reading
			hijacking
		}{p(7), flushing{p(7)}, reading{p(7)}, hijacking{p(7)}},
	}
	return all, of
}

// TestAbilitiesAreThoseInside asks writers with every set of abilities through one layer and
// through two, and uses what they have.
func TestAbilitiesAreThoseInside(t *testing.T) {
	for layers := range 3 {
		all, of := writers()
		for set, w := range all {
			for range layers {
				w = around(w, true)
			}
			flusher, flushes := w.(http.Flusher)
			reader, reads := w.(io.ReaderFrom)
			hijacker, hijacks := w.(http.Hijacker)
			if flushes != (set&1 != 0) || reads != (set&2 != 0) || hijacks != (set&4 != 0) {
				t.Fatalf("%d layers around set %03b: flush %t, read %t, hijack %t", layers, set, flushes, reads, hijacks)
			}
			control := http.NewResponseController(w)
			if err := control.Flush(); (err == nil) != flushes || !flushes && !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("%d layers around set %03b: Flush: %v", layers, set, err)
			}
			if _, _, err := control.Hijack(); (err == nil) != hijacks {
				t.Errorf("%d layers around set %03b: Hijack: %v", layers, set, err)
			}
			for _, err := range []error{control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}), control.EnableFullDuplex()} {
				if !errors.Is(err, http.ErrNotSupported) {
					t.Errorf("%d layers around set %03b: a deadline: %v", layers, set, err)
				}
			}
			var want []string
			if flushes {
				flusher.Flush()
				want = append(want, "flush")
			}
			if hijacks {
				want = append(want, "hijack")
			}
			if flushes {
				want = append(want, "flush")
			}
			if reads {
				_, _ = reader.ReadFrom(strings.NewReader("text"))
				want = append(want, "read")
			}
			if hijacks {
				_, _, _ = hijacker.Hijack()
				want = append(want, "hijack")
			}
			if got := strings.Join(of[set].used, " "); got != strings.Join(want, " ") {
				t.Errorf("%d layers around set %03b: %q, want %q", layers, set, got, want)
			}
		}
	}
}

// TestAbilitiesOfWrappedWriters: Flush and Hijack are found through Unwrap, ReadFrom is not, and
// deadlines reach the writer inside.
func TestAbilitiesOfWrappedWriters(t *testing.T) {
	all, of := writers()
	w := around(wrapped{all[7]}, true)
	_, flushes := w.(http.Flusher)
	_, reads := w.(io.ReaderFrom)
	_, hijacks := w.(http.Hijacker)
	if !flushes || reads || !hijacks {
		t.Errorf("flush %t, read %t, hijack %t", flushes, reads, hijacks)
	}
	w = around(struct {
		*plain
		timing
	}{of[0], timing{of[0]}}, true)
	control := http.NewResponseController(w)
	if err := errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}), control.EnableFullDuplex()); err != nil {
		t.Error(err)
	}
	if got := strings.Join(of[0].used, " "); got != "read write duplex" {
		t.Errorf("inside arrived %q", got)
	}
}

// TestHijackIsRefused: a layer can keep the connection to itself, also against
// http.ResponseController.
func TestHijackIsRefused(t *testing.T) {
	all, of := writers()
	for set, w := range all {
		w = around(w, false)
		if _, ok := w.(http.Hijacker); ok {
			t.Errorf("set %03b hijacks", set)
		}
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("set %03b: %v", set, err)
		}
		if len(of[set].used) > 0 {
			t.Errorf("set %03b was used: %v", set, of[set].used)
		}
	}
}

// TestNothingIsAllocated: a layer that has a Writer costs no more than itself.
func TestNothingIsAllocated(t *testing.T) {
	all, _ := writers()
	l := &layer{}
	for set, w := range all {
		l.ResponseWriter = w
		if n := testing.AllocsPerRun(100, func() { _ = l.Around(l, w, true) }); n != 0 {
			t.Errorf("set %03b: %v allocations", set, n)
		}
	}
}
