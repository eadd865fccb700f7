package mirror

import (
	"context"
	"time"

	"gatehouse.example/storage/catalogue"
)

// Status is the status of a mirror and its catalogue, for people and for metrics.
type Status struct {
	Upstream string `json:"upstream,omitempty"`
	// Running is the round that is in progress or was interrupted.
	Running *Report `json:"running,omitempty"`
	// LastFull and LastIncrement are the last successful rounds of each kind.
	LastFull      *Report `json:"last_full,omitempty"`
	LastIncrement *Report `json:"last_increment,omitempty"`
	// LastSync is the end of the last successful round.
	LastSync time.Time `json:"last_sync,omitzero"`
	// Failure is set while the last round has failed.
	Failure *Failure `json:"failure,omitempty"`
	// Shrink is set while the operator has to decide whether missing rows should be removed.
	Shrink *Shrink `json:"shrink,omitempty"`

	// Servers counts the servers with a version that is not deleted, Rows the versions that
	// are not deleted, Deleted the deleted versions.
	Servers int `json:"servers"`
	Rows    int `json:"rows"`
	Deleted int `json:"deleted"`
	// Own counts the own servers. The other numbers are rows with a flag.
	Own       int `json:"own"`
	Changed   int `json:"changed"`
	Conflicts int `json:"conflicts"`
	Vanished  int `json:"vanished"`
	Shadowed  int `json:"shadowed"`
	// UnknownStatus counts rows with [FlagStatus].
	UnknownStatus int `json:"unknown_status"`

	// Writer is the Config.Owner of the process that holds the lease, "" if none does.
	Writer string `json:"writer,omitempty"`
	// Committed is the number of the last commit, CommittedAt its time.
	Committed   uint64    `json:"committed"`
	CommittedAt time.Time `json:"committed_at,omitzero"`
}

// ReadStatus returns the status of a catalogue, whichever process fills it.
func ReadStatus(ctx context.Context, c *catalogue.Catalogue) (Status, error) {
	st, err := c.State(ctx)
	if err != nil {
		return Status{}, err
	}
	p, err := readProgress(st)
	if err != nil {
		return Status{}, err
	}
	return p.status(st), nil
}

func (p progress) status(st catalogue.State) Status {
	s := Status{
		Upstream: p.Upstream, LastFull: p.Full, LastIncrement: p.Increment, LastSync: p.Ended, Failure: p.Failure, Shrink: p.Shrink,
		Servers: st.Servers, Rows: st.Live, Deleted: st.Deleted, Own: len(p.Own),
		Changed: p.Flags[FlagChanged], Conflicts: p.Flags[FlagConflict], Vanished: p.Flags[FlagVanished], Shadowed: p.Flags[FlagShadowed],
		UnknownStatus: p.Flags[FlagStatus],
		Committed:     st.Committed, CommittedAt: st.Changed,
	}
	if p.Crawl != nil {
		s.Running = &p.Crawl.Report
	}
	if st.Leased {
		s.Writer = st.Owner
	}
	return s
}
