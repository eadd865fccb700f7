package mirror

import (
	"context"
	"time"

	"gatehouse.example/storage/catalogue"
)

// Status is how the catalogue is kept, for people and for metrics.
type Status struct {
	Upstream string `json:"upstream,omitempty"`
	// Running is the round that is under way or was interrupted.
	Running *Report `json:"running,omitempty"`
	// LastFull and LastIncrement are the last rounds of each kind that ended well.
	LastFull      *Report `json:"last_full,omitempty"`
	LastIncrement *Report `json:"last_increment,omitempty"`
	// LastSync is when a round ended well last.
	LastSync time.Time `json:"last_sync,omitzero"`
	Failure  *Failure  `json:"failure,omitempty"`
	// Shrink is set while somebody has to decide whether what is missing is to be removed.
	Shrink *Shrink `json:"shrink,omitempty"`

	// Servers counts those with a version that is not deleted, Rows all versions that are
	// not, Deleted the others.
	Servers int `json:"servers"`
	Rows    int `json:"rows"`
	Deleted int `json:"deleted"`
	// Own counts the servers of our own, and the others rows with a flag.
	Own       int `json:"own"`
	Changed   int `json:"changed"`
	Conflicts int `json:"conflicts"`
	Vanished  int `json:"vanished"`
	Shadowed  int `json:"shadowed"`
	// UnknownStatus counts those that are hidden because the upstream gives them a status
	// that is none of the three.
	UnknownStatus int `json:"unknown_status"`

	// Writer is who fills the catalogue at this moment, "" for nobody.
	Writer string `json:"writer,omitempty"`
	// Committed and CommittedAt are the last change that readers see.
	Committed   uint64    `json:"committed"`
	CommittedAt time.Time `json:"committed_at,omitzero"`
}

// ReadStatus reads how a catalogue is kept, by whatever process.
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
