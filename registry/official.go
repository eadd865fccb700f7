package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/registry/internal/rawjson"
)

// Status is a registry's advice on the use of a server. Any status may follow any other.
type Status string

// The statuses.
const (
	StatusActive     Status = "active"
	StatusDeprecated Status = "deprecated" // still available, not recommended for new use
	StatusDeleted    Status = "deleted"    // withdrawn, mostly because of its content
)

// Validate returns an error unless s is one of the three statuses.
func (s Status) Validate() error {
	switch s {
	case StatusActive, StatusDeprecated, StatusDeleted:
		return nil
	}
	return fmt.Errorf("registry: unknown status %.40q", string(s))
}

// maxStatusMessage is the limit of a status message in characters.
const maxStatusMessage = 500

// Official is a registry's statement about a record, under the key [MetaOfficial]. A time that
// the registry omits is zero.
type Official struct {
	Status          Status
	StatusMessage   string
	StatusChangedAt time.Time
	PublishedAt     time.Time
	UpdatedAt       time.Time
	IsLatest        bool
}

func parseOfficial(raw json.RawMessage) (Official, error) {
	var in struct {
		Status          *Status `json:"status"`
		StatusMessage   string  `json:"statusMessage"`
		StatusChangedAt string  `json:"statusChangedAt"`
		PublishedAt     string  `json:"publishedAt"`
		UpdatedAt       string  `json:"updatedAt"`
		IsLatest        bool    `json:"isLatest"`
	}
	if err := strictjson.Unmarshal(raw, &in, itemBounds); err != nil {
		invalid := unreadable("item", err)
		invalid.Faults[0].Place = strings.TrimSuffix("_meta."+MetaOfficial+"."+invalid.Faults[0].Place, ".")
		return Official{Status: statusAlone(raw)}, invalid
	}
	o := Official{StatusMessage: in.StatusMessage, IsLatest: in.IsLatest}
	var errs [5]error
	if in.Status != nil {
		if errs[0] = wrongStatus("_meta."+MetaOfficial+".status", *in.Status); errs[0] == nil {
			o.Status = *in.Status
		}
	}
	if utf8.RuneCountInString(o.StatusMessage) > maxStatusMessage {
		o.StatusMessage = ""
		errs[1] = invalidItem("_meta."+MetaOfficial+".statusMessage", fmt.Sprintf("it must have %d characters at most", maxStatusMessage))
	}
	o.StatusChangedAt, errs[2] = parseTime("statusChangedAt", in.StatusChangedAt)
	o.PublishedAt, errs[3] = parseTime("publishedAt", in.PublishedAt)
	o.UpdatedAt, errs[4] = parseTime("updatedAt", in.UpdatedAt)
	return o, cmp.Or(errs[:]...)
}

// statusAlone returns the status of a statement whose other members cannot be read, "" if the
// status is missing or invalid.
func statusAlone(raw json.RawMessage) Status {
	var s Status
	if json.Unmarshal(rawjson.Find(rawjson.Members(raw), "status"), &s) != nil || s.Validate() != nil {
		return ""
	}
	return s
}

func wrongStatus(place string, s Status) error {
	if s.Validate() == nil {
		return nil
	}
	return invalidItem(place, "it must be active, deprecated or deleted")
}

// parseTime parses a time of RFC 3339 and returns it in UTC, or the zero time for "".
func parseTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	// RFC 3339 section 1: years have four digits. That must hold in UTC as well.
	if t = t.UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, invalidItem("_meta."+MetaOfficial+"."+name, "it must be a time of RFC 3339")
	}
	return t, nil
}

func (o Official) equal(other Official) bool {
	return o.Status == other.Status && o.StatusMessage == other.StatusMessage && o.IsLatest == other.IsLatest &&
		o.StatusChangedAt.Equal(other.StatusChangedAt) && o.PublishedAt.Equal(other.PublishedAt) && o.UpdatedAt.Equal(other.UpdatedAt)
}
