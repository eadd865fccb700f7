package doctor

import (
	"context"
	"fmt"
	"time"
)

// full tells why no registration is begun, "" if there is room for it and for its removal. A
// registration that is slow must leave the time for that too.
func (w *walker) full(ctx context.Context) string {
	c := w.courier
	if why := c.spent(ctx); why != "" {
		return why
	}
	end, limited := ctx.Deadline()
	switch {
	case limited && time.Until(end) < 2*patience:
		return "the time that is left is not enough to register a client and to remove it"
	case c.requests+2 > c.most-c.reserved:
		return fmt.Sprintf("%d requests are not enough to register a client and to remove it", c.most)
	case c.bytes+2*MaxBody > MaxBytes:
		return fmt.Sprintf("%d bytes are not enough to register a client and to remove it", MaxBytes)
	}
	return ""
}

// removal asks for the removal of a registration, also when everything else has ended: nothing stays
// because somebody interrupts the examination.
func (w *walker) removal(parent context.Context, q question) *exchange {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), patience)
	defer cancel()
	w.courier.most = max(w.courier.most, w.courier.requests+1)
	w.courier.bytes = min(w.courier.bytes, MaxBytes-MaxBody)
	return w.ask(ctx, q)
}

// uncertain tells why a client may be registered that nobody can remove, "" if that is not so: the
// answer is lost, or has no client_id that can be read.
func (e *exchange) uncertain(id string) string {
	switch {
	case e.code()/100 == 2 && id == "":
		return e.String() + " without a client_id that can be read"
	case e.code() == 502 || e.code() == 504: // a proxy that lost the answer
		return e.String()
	case e.answered() || !e.wrote || e.failure == failLimited:
		return ""
	}
	return e.String()
}
