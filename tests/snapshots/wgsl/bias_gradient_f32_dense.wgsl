@group(0) @binding(1) var<storage, read_write> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn bias_gradient_f32_dense(@builtin(workgroup_id) v138: vec3<u32>, @builtin(num_workgroups) v140: vec3<u32>, @builtin(local_invocation_index) v147: u32) {
let v177 = &v5;
let v178 = &v1;
let v3 = u32(0);
let v43 = info_var.static_meta[1];
let v9 = info_var.scalars_usize[0];
let v11 = info_var.scalars_usize[2];
let v139 = v138[2];
let v47 = u32(v139);
let v141 = v140[1];
let v49 = u32(v141);
let v50 = v47 * v49;
let v142 = v140[0];
let v52 = u32(v142);
let v53 = v50 * v52;
let v143 = v138[1];
let v55 = u32(v143);
let v58 = v55 * v52;
let v59 = v53 + v58;
let v145 = v138[0];
let v61 = u32(v145);
let v62 = v59 + v61;
let v173 = u32(64);
let v65 = v62 * v173;
let v148 = v147;
let v67 = u32(v148);
let v68 = v65 + v67;
let v14 = v68 < v43;
if v14 {
let v18 = v68 % v9;
let v19 = f32(0.0);
let v20 = vec4<f32>(v19);
var<function> v44_store: vec4<f32>;
let v44 = &v44_store;
*v44 = v20;
let v23 = u32(1);
for(var v24: u32 = v3; v24 < v11; v24 += v23) {
let v26 = v24 * v9;
let v27 = v26 + v18;
let v31 = &(*v178)[v27];
let v32 = *v31;
let v33 = *v44;
let v34 = v33 + v32;
*v44 = v34;

}
let v39 = &(*v177)[v68];
let v40 = *v44;
*v39 = v40;

}
return;

}
