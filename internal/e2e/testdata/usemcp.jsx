// A page that connects with use-mcp to the server that its query names, as a web client
// would. It opens the sign-in page in a window of its own.
import { createRoot } from 'react-dom/client';
import { onMcpAuthorization } from 'use-mcp';
import { useMcp } from 'use-mcp/react';

function Notes({ url }) {
  const { state, tools, error, callTool, authenticate } = useMcp({ url, clientName: 'use-mcp', autoReconnect: false });
  const add = async () => {
    const result = await callTool('add_note', { text: 'milk' });
    document.getElementById('added').textContent = JSON.stringify(result.structuredContent);
  };
  return (
    <main>
      <p id="state">{state}</p>
      <p id="error">{error}</p>
      <p id="tools">{tools.map((tool) => tool.name).sort().join(' ')}</p>
      <p id="added" />
      <button id="authenticate" type="button" onClick={authenticate}>Sign in</button>
      <button id="add" type="button" onClick={add}>Add</button>
    </main>
  );
}

if (window.location.pathname === '/oauth/callback') {
  onMcpAuthorization();
} else {
  createRoot(document.getElementById('root')).render(<Notes url={new URLSearchParams(window.location.search).get('server')} />);
}
