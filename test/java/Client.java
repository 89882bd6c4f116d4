import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** What a test asks to do something, one thing after the other. */
interface Client {
    /** Does a job and answers. What it throws is the answer's error. */
    ObjectNode run(JsonNode job) throws Exception;

    /** Ends what is open. */
    default void end() throws Exception {}
}
