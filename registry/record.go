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
	// MaxRecord is the size limit of a record in bytes.
	MaxRecord = 256 << 10
	// MaxDepth is the limit of nested arrays and objects in a record.
	MaxDepth = 32
)

var recordBounds = strictjson.Options{MaxBytes: MaxRecord, MaxDepth: MaxDepth}

// Record is one version of one server: its server.json, in the original bytes. It is immutable
// and, if [ParseRecord] made it, valid. The zero Record stands for no record; see [Record.IsZero].
type Record struct {
	raw   string
	known known
}

// known has the members of a record that this package knows. For raw members it knows the
// name only.
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
	// Status is not a member of a record. The older form of an item has the registry's status
	// in its place.
	Status json.RawMessage `json:"status"`
}

// Repository locates the source code of a server.
type Repository struct {
	URL       string `json:"url"`
	Source    string `json:"source"`    // the hosting service, such as github
	ID        string `json:"id"`        // the hosting service's identifier
	Subfolder string `json:"subfolder"` // path of the server in the repository
}

// Remote is the transport of a running server, or of a package.
type Remote struct {
	Type string `json:"type"` // streamable-http or sse; for a package also stdio
	// URL may contain variables: names in braces.
	URL       string                     `json:"url"`
	Headers   []Input                    `json:"headers"`
	Variables map[string]json.RawMessage `json:"variables"`
}

// Package is software that a user can install to run a server.
type Package struct {
	RegistryType         string          `json:"registryType"` // npm, pypi, oci, nuget, mcpb, cargo, or another
	RegistryBaseURL      string          `json:"registryBaseUrl"`
	Identifier           string          `json:"identifier"` // a name in the package registry, or a URL
	Version              string          `json:"version"`
	FileSHA256           string          `json:"fileSha256"`
	RuntimeHint          string          `json:"runtimeHint"`
	Transport            Remote          `json:"transport"`
	EnvironmentVariables []Input         `json:"environmentVariables"`
	RuntimeArguments     json.RawMessage `json:"runtimeArguments"`
	PackageArguments     json.RawMessage `json:"packageArguments"`
}

// Input is a value that the user of a server has to provide: an environment variable or a
// header.
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

// ParseRecord parses and validates a server.json. The error is an [*InvalidError] that lists
// the faults and their places.
func ParseRecord(data []byte) (Record, error) {
	var tree any
	if err := strictjson.Unmarshal(data, &tree, recordBounds); err != nil {
		return Record{}, unreadable("record", err)
	}
	if err := checkTree(data, tree); err != nil {
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

// checkTree checks a record before it is decoded into types: that names are not ambiguous,
// and the schema.
func checkTree(data []byte, tree any) error {
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

// StoredRecord returns a record that [ParseRecord] has accepted before, without validating it
// again: rules may have become stricter since, and accepted records are still served. If the
// members cannot be decoded, it returns an error and a record that has the bytes alone.
func StoredRecord(data []byte) (Record, error) {
	r := Record{raw: string(data)}
	return r, json.Unmarshal(data, &r.known)
}

// WithoutMeta returns the record without a key of its _meta. Every other member keeps its
// bytes.
func (r Record) WithoutMeta(key string) (Record, error) {
	raw := []byte(r.raw)
	if own := rawjson.Without(rawjson.Find(rawjson.Members(raw), "_meta"), key); len(rawjson.Members(own)) > 0 {
		raw = rawjson.With(raw, "_meta", own)
	} else {
		raw = rawjson.Without(raw, "_meta")
	}
	return ParseRecord(raw)
}

// Name returns the name of the server: a reversed domain name, a slash, and a name in that
// namespace.
func (r Record) Name() string { return r.known.Name }

// Version returns the version of the server that the record describes.
func (r Record) Version() string { return r.known.Version }

// Title returns the display name of the server, "" if the record has none.
func (r Record) Title() string { return r.known.Title }

// Description returns the description of the server.
func (r Record) Description() string { return r.known.Description }

// Schema returns the URI of the record's schema, "" if the record names none.
func (r Record) Schema() string { return r.known.Schema }

// Website returns the URL of a page about the server, "" if the record has none.
func (r Record) Website() string { return r.known.Website }

// Repository returns the location of the source code. It is zero if the record has none.
func (r Record) Repository() Repository { return r.known.Repository }

// Icons returns the icons of the server.
func (r Record) Icons() []message.Icon { return slices.Clone(r.known.Icons) }

// Remotes returns the endpoints of running servers.
func (r Record) Remotes() []Remote { return slices.Clone(r.known.Remotes) }

// Packages returns the packages that run the server.
func (r Record) Packages() []Package { return slices.Clone(r.known.Packages) }

// Meta returns _meta of the record itself, which its publisher wrote.
func (r Record) Meta() map[string]json.RawMessage { return maps.Clone(r.known.Meta) }

// IsZero reports whether r is the zero Record.
func (r Record) IsZero() bool { return r.raw == "" }

// Raw returns the record in its original bytes, nil for the zero Record.
func (r Record) Raw() json.RawMessage {
	if r.IsZero() {
		return nil
	}
	return json.RawMessage(r.raw)
}

// MarshalJSON returns the original bytes of the record, or null for the zero Record.
func (r Record) MarshalJSON() ([]byte, error) {
	if r.IsZero() {
		return []byte("null"), nil
	}
	return r.Raw(), nil
}

// Differs returns the names of the members in which two records differ, sorted. The order of
// members and white space do not count: registries write the same record differently.
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

// String returns the name and the version, with a space between them.
func (r Record) String() string { return fmt.Sprintf("%s %s", r.Name(), r.Version()) }
