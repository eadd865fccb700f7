package message_test

import (
	"errors"
	"fmt"

	"gatehouse.example/message"
)

// answerTo returns the response to a message of a client, or nil.
func answerTo(data []byte) []byte {
	m, err := message.Decode(data, message.Limits{MaxBytes: 64 << 10})
	if refused := (*message.DecodeError)(nil); errors.As(err, &refused) {
		answer, ok := refused.Response()
		if !ok {
			return nil
		}
		return encoded(answer)
	}
	request, ok := m.(message.Request)
	if !ok {
		return nil // notifications are not answered
	}
	if request.Method != "ping" {
		return encoded(request.Fail(message.Error{Code: message.CodeMethodNotFound, Message: "Method not found"}))
	}
	pong, err := message.NewObject(map[string]any{"resultType": "complete"})
	if err != nil {
		return nil
	}
	return encoded(request.Respond(pong))
}

func encoded(m message.Message) []byte {
	data, err := message.Encode(m)
	if err != nil {
		return nil
	}
	return data
}

func ExampleDecode() {
	for _, data := range []string{
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/list","METHOD":"tools/call"}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		fmt.Printf("%s\n", answerTo([]byte(data)))
	}
	// Output:
	// {"jsonrpc":"2.0","id":9007199254740993,"result":{"resultType":"complete"}}
	// {"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"Method not found"}}
	// {"jsonrpc":"2.0","id":"a","error":{"code":-32600,"message":"Invalid Request: there is a member that no message has"}}
	//
}

func ExampleObject_Member() {
	params, err := message.NewObject(map[string]any{"name": "list_notes", "NAME": "add_note"})
	if err != nil {
		fmt.Println(err)
	}
	_, err = params.Member("name")
	fmt.Println(err)
	// Output: message: readers differ about a member: "name" is there in another case
}

func ExampleNewError() {
	_, err := message.NewError(-32050, "the notebook is closed", nil)
	fmt.Println(err)
	e, err := message.NewError(50, "the notebook is closed", map[string]string{"until": "08:00"})
	fmt.Println(e.Code, string(e.Data), err)
	// Output:
	// message: error: the code -32050 is reserved
	// 50 {"until":"08:00"} <nil>
}

func ExampleMetaKey_Reserved() {
	for _, s := range []string{"com.example/color", "io.modelcontextprotocol/clientInfo", "com.example.mcp/color", "_color"} {
		key, err := message.ParseMetaKey(s)
		fmt.Println(s, key.Reserved(), err == nil)
	}
	// Output:
	// com.example/color false true
	// io.modelcontextprotocol/clientInfo true true
	// com.example.mcp/color false true
	// _color false false
}

func ExampleSessionIDs() {
	var used message.SessionIDs // of one client in one session
	fmt.Println(used.Use(message.NumberID(1)))
	fmt.Println(used.Use(message.NumberID(1)))
	// Output:
	// <nil>
	// message: the id of the request was used before
}
