@group(0) @binding(1) var<storage, read_write> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_f32_gated_silu_dense(@builtin(workgroup_id) v147: vec3<u32>, @builtin(num_workgroups) v149: vec3<u32>, @builtin(local_invocation_index) v156: u32) {
let v186 = &v5;
let v187 = &v1;
let v53 = info_var.static_meta[1];
let v10 = info_var.scalars_usize[1];
let v148 = v147[2];
let v56 = u32(v148);
let v150 = v149[1];
let v58 = u32(v150);
let v59 = v56 * v58;
let v151 = v149[0];
let v61 = u32(v151);
let v62 = v59 * v61;
let v152 = v147[1];
let v64 = u32(v152);
let v67 = v64 * v61;
let v68 = v62 + v67;
let v154 = v147[0];
let v70 = u32(v154);
let v71 = v68 + v70;
let v182 = u32(64);
let v74 = v71 * v182;
let v157 = v156;
let v76 = u32(v157);
let v77 = v74 + v76;
let v13 = v77 < v53;
if v13 {
let v15 = v77 / v10;
let v17 = v77 % v10;
let v18 = f32(0.0);
let v19 = vec4<f32>(v18);
var<function> v54_store: vec4<f32>;
let v54 = &v54_store;
*v54 = v19;
let v21 = v15 * v10;
let v22 = u32(2);
let v23 = v21 * v22;
let v24 = v23 + v17;
let v28 = &(*v187)[v24];
let v29 = *v28;
let v32 = f32(1.0);
let v33 = vec4<f32>(v32);
let v34 = -v29;
let v35 = exp(v34);
let v36 = v33 + v35;
let v37 = v29 / v36;
let v38 = v24 + v10;
let v42 = &(*v187)[v38];
let v43 = *v42;
let v44 = v37 * v43;
*v54 = v44;
let v45 = *v54;
let v50 = &(*v186)[v77];
*v50 = v45;

}
return;

}
