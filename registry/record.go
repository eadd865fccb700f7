package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/message"
	"gatehouse.example/registry/internal/rawjson"
)

const (
	// MaxRecord is how many bytes a record may have.
	MaxRecord = 256 << 10
	// MaxDepth is how deep arrays and objects may be nested in a record.
	MaxDepth = 32
)

var recordBounds = strictjson.Options{MaxBytes: MaxRecord, MaxDepth: MaxDepth}

// Record is one version of one server: its server.json, in the bytes in which it came. It
// cannot be changed, and what is in it was checked. The zero Record is none.
type Record struct {
	raw   string
	known known
}

// known are the members that this package knows. Those that are raw are known by name only.
type known struct {
	Schema      string                     `json:"$schema"`
	Name        string                     `json:"name"`
	Title       string                     `json:"title"`
	Description string                     `json:"description"`
	Version     string                     `json:"version"`
	Website     string                     `json:"websiteUrl"`
	Repository  Repository                 `json:"repository"`
	Icons       []message.Icon             `json:"icons"`
	Packages    []Package                  `json:"packages"`
	Remotes     []Remote                   `json:"remotes"`
	Meta        map[string]json.RawMessage `json:"_meta"`
	// Status is no member of a record, but readers of the older form take one for it.
	Status json.RawMessage `json:"status"`
}

// Repository is where the source of a server is.
type Repository struct {
	URL       string `json:"url"`
	Source    string `json:"source"`    // who hosts it, such as github
	ID        string `json:"id"`        // what the host calls it
	Subfolder string `json:"subfolder"` // where in it the server is
}

// Remote is a place where a server runs, or how a package is spoken to.
type Remote struct {
	Type string `json:"type"` // streamable-http, sse, or for a package stdio
	// URL may have variables in it: names in braces.
	URL       string                     `json:"url"`
	Headers   []Input                    `json:"headers"`
	Variables map[string]json.RawMessage `json:"variables"`
}

// Package is something to install that runs a server.
type Package struct {
	RegistryType         string          `json:"registryType"` // npm, pypi, oci, nuget, mcpb, cargo, or another
	RegistryBaseURL      string          `json:"registryBaseUrl"`
	Identifier           string          `json:"identifier"` // a name there, or a URL
	Version              string          `json:"version"`
	FileSHA256           string          `json:"fileSha256"`
	RuntimeHint          string          `json:"runtimeHint"`
	Transport            Remote          `json:"transport"`
	EnvironmentVariables []Input         `json:"environmentVariables"`
	RuntimeArguments     json.RawMessage `json:"runtimeArguments"`
	PackageArguments     json.RawMessage `json:"packageArguments"`
}

// Input is something that whoever runs or calls a server has to provide: an environment
// variable or a header.
type Input struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	IsRequired  bool            `json:"isRequired"`
	IsSecret    bool            `json:"isSecret"`
	Value       string          `json:"value"`
	Default     string          `json:"default"`
	Format      string          `json:"format"`
	Placeholder string          `json:"placeholder"`
	Choices     []string        `json:"choices"`
	Variables   json.RawMessage `json:"variables"`
}

// ParseRecord reads a server.json. An [*InvalidError] says what is wrong with it, and where.
func ParseRecord(data []byte) (Record, error) {
	var tree any
	if err := strictjson.Unmarshal(data, &tree, recordBounds); err != nil {
		return Record{}, unreadable("record", err)
	}
	if err := record(data, tree); err != nil {
		return Record{}, err
	}
	r := Record{raw: string(data)}
	if err := strictjson.Unmarshal(data, &r.known, recordBounds); err != nil {
		return Record{}, unreadable("record", err)
	}
	if faults := r.known.faults(); len(faults) > 0 {
		return Record{}, &InvalidError{What: "record", Faults: faults}
	}
	return r, nil
}

// record checks what can be checked before the members have types.
func record(data []byte, tree any) error {
	object, ok := tree.(map[string]any)
	if !ok {
		return &InvalidError{What: "record", Faults: []Fault{{Reason: "it must be an object"}}}
	}
	if faults := ambiguous(object, reflect.TypeFor[known](), ""); len(faults) > 0 {
		return &InvalidError{What: "record", Faults: faults}
	}
	chosen, err := schemaFor(object["$schema"])
	if err != nil {
		return err
	}
	return chosen.check(data, object)
}

// StoredRecord returns a record that [ParseRecord] has accepted before, without checking it
// again: rules may have become stricter since, and what was accepted is served on. The error
// says that its members cannot be read; the record has its bytes nevertheless.
func StoredRecord(data []byte) (Record, error) {
	r := Record{raw: string(data)}
	return r, json.Unmarshal(data, &r.known)
}

// WithoutMeta returns the record without a key of its _meta. All the rest keeps its bytes.
func (r Record) WithoutMeta(key string) (Record, error) {
	raw := []byte(r.raw)
	if own := rawjson.Without(rawjson.Find(rawjson.Members(raw), "_meta"), key); len(rawjson.Members(own)) > 0 {
		raw = rawjson.With(raw, "_meta", own)
	} else {
		raw = rawjson.Without(raw, "_meta")
	}
	return ParseRecord(raw)
}

// Name is the name of the server: a namespace in the order of reversed domain names, a
// slash, and a name in it.
func (r Record) Name() string { return r.known.Name }

// Version is the version of the server that the record is about.
func (r Record) Version() string { return r.known.Version }

// Title is how people call the server, "" if the record does not say.
func (r Record) Title() string { return r.known.Title }

// Description is what the server is for.
func (r Record) Description() string { return r.known.Description }

// Schema is the URI of the schema that the record names, "" if it names none.
func (r Record) Schema() string { return r.known.Schema }

// Website is a page about the server, "" if the record names none.
func (r Record) Website() string { return r.known.Website }

// Repository is where the source is. It is zero if the record does not say.
func (r Record) Repository() Repository { return r.known.Repository }

// Icons are images that stand for the server.
func (r Record) Icons() []message.Icon { return slices.Clone(r.known.Icons) }

// Remotes are the places where the server runs.
func (r Record) Remotes() []Remote { return slices.Clone(r.known.Remotes) }

// Packages are what can be installed.
func (r Record) Packages() []Package { return slices.Clone(r.known.Packages) }

// Meta is _meta of the record itself: what its publisher says beyond the schema.
func (r Record) Meta() map[string]json.RawMessage { return maps.Clone(r.known.Meta) }

// IsZero says whether there is no record.
func (r Record) IsZero() bool { return r.raw == "" }

// Raw returns the record in the bytes in which it came, nil if there is none.
func (r Record) Raw() json.RawMessage {
	if r.IsZero() {
		return nil
	}
	return json.RawMessage(r.raw)
}

// MarshalJSON returns the record, and null if there is none.
func (r Record) MarshalJSON() ([]byte, error) {
	if r.IsZero() {
		return []byte("null"), nil
	}
	return r.Raw(), nil
}

// Differs returns the names of the members in which two records differ, sorted. Order and
// white space do not count, in which registries write one record differently.
func (r Record) Differs(from Record) []string {
	mine, theirs := r.members(), from.members()
	var names []string
	for name, value := range mine {
		other, ok := theirs[name]
		if !ok || !reflect.DeepEqual(value, other) {
			names = append(names, name)
		}
	}
	for name := range theirs {
		if _, ok := mine[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (r Record) members() (members map[string]any) {
	if r.IsZero() || strictjson.Unmarshal([]byte(r.raw), &members, recordBounds) != nil {
		return nil
	}
	return members
}

// String returns the name and the version.
func (r Record) String() string { return fmt.Sprintf("%s %s", r.Name(), r.Version()) }
